"""The version of an operation's code changes with what the code does, and with nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

from springline.spark_jobs.code.code_version import CodeCollector, code_version
from springline.spark_jobs.errors import CodeVersionError
from springline.spark_jobs.nycflights import open_text

BASE = """
    import math
    from pathlib import Path
    from dataclasses import dataclass

    LIMIT = 10
    WORDS = frozenset({"a", "b", "c"})
    HERE = Path("somewhere")

    @dataclass(frozen=True)
    class Rule:
        name: str
        limit: int = LIMIT

    RULES = (Rule("one"), Rule("two", 5))

    def inner(x):
        return x + LIMIT

    def outer(x):
        return inner(x) * math.pi

    def clean(context, parsed):
        found = [rule for rule in RULES if rule.name in WORDS]
        return outer(parsed), found, HERE
"""


@pytest.fixture
def version_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Gives the version of `clean` in a module of this text, other modules by name beside it."""
    count = 0

    def version_of_(text: str, **others: str) -> str:
        nonlocal count
        count += 1
        folder = tmp_path / str(count)
        folder.mkdir()
        for name in ("pipeline", *others):
            (folder / f"{name}.py").write_text(dedent(others.get(name, text)))
            sys.modules.pop(name, None)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(folder))
            return code_version(import_module("pipeline").clean)

    yield version_of_
    for name in ("pipeline", "tools"):
        sys.modules.pop(name, None)


def changed(old: str, new: str, text: str = BASE) -> str:
    """`text` with one place changed, which must be there."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("return outer(parsed), found, HERE", "return outer(parsed), found, HERE  # as it should be", True),
        ("def outer(x):", 'def outer(x):\n        """Says what it does."""', True),
        ("def clean(context, parsed):", "def clean(context: object, parsed: list[int]) -> tuple:", True),
        ("return outer(parsed), found, HERE", "return (outer(parsed),\n                found, HERE)", True),
        ("    LIMIT = 10", "    UNUSED = 11\n\n\n\n    LIMIT = 10", True),
        ("    import math\n", "    import math\n    import json\n", True),
        ('frozenset({"a", "b", "c"})', 'frozenset({"c", "a", "b"})', True),
        ("return outer(parsed), found, HERE", "return outer(parsed), HERE, found", False),
        ("return inner(x) * math.pi", "return inner(x) * math.e", False),
        ("return x + LIMIT", "return x - LIMIT", False),
        ("    LIMIT = 10", "    LIMIT = 11", False),
        ('frozenset({"a", "b", "c"})', 'frozenset({"a", "b"})', False),
        ('Rule("two", 5)', 'Rule("two", 6)', False),
        ('Path("somewhere")', 'Path("elsewhere")', False),
        ("limit: int = LIMIT", "limit: int = LIMIT + 0", False),
    ],
    ids=[
        "comment", "docstring", "annotations", "formatting", "unrelated constant", "unrelated import", "set order",
        "itself", "called", "called by called", "constant", "set", "instance", "made by expression", "class",
    ],
)  # fmt: skip
def test_the_version_changes_with_what_the_code_does_and_with_nothing_else(
    version_of: Callable[..., str], old: str, new: str, *, is_same: bool
) -> None:
    """So does that of every function, class and constant that is referred to; comments and layout change nothing."""
    assert (version_of(changed(old, new)) == version_of(BASE)) is is_same


TOOLS = """
    SCHEMA = object()
    FACTOR = 2
    def tool(x):
        return x * FACTOR
    def other(x):
        return x
"""


@pytest.mark.parametrize(
    "pipeline",
    [
        "import tools\ndef clean(context):\n    return tools.tool(1)\n",
        "from tools import tool\ndef clean(context):\n    return tool(1)\n",
        "def clean(context):\n    from tools import tool as t\n    return t(1)\n",
        "from functools import partial\nimport tools as t\nf = partial(t.tool)\ndef clean(context):\n    return f(1)\n",
        "import tools\nALL = {'one': tools.tool}\ndef clean(context):\n    return ALL['one'](1)\n",
    ],
    ids=["by module", "by name", "inside", "partial", "in a table"],
)
def test_references_lead_into_other_modules(version_of: Callable[..., str], pipeline: str) -> None:
    """What is used of another module counts, what is not used does not, however it is reached."""
    before = version_of(pipeline, tools=TOOLS)
    assert version_of(pipeline, tools=changed("FACTOR = 2", "FACTOR = 3", TOOLS)) != before
    assert version_of(pipeline, tools=changed("return x\n", "return -x\n", TOOLS)) == before


def test_a_constant_that_says_nothing_counts_by_the_expression_that_made_it(version_of: Callable[..., str]) -> None:
    """Also where it is imported from another module under another name."""
    pipeline = "from tools import SCHEMA as S\ndef clean(context):\n    return S\n"
    before = version_of(pipeline, tools=TOOLS)
    assert version_of(pipeline, tools=changed("object()", "Exception()", TOOLS)) != before
    assert version_of(pipeline, tools="\n\n" + TOOLS) == before


@pytest.mark.parametrize(
    "text",
    [
        "def a(n):\n    return b(n)\ndef b(n):\n    return n and a(1)\ndef clean(context):\n    return a\n",
        "import functools\n@functools.lru_cache\ndef f():\n    return 1\ndef clean(context):\n    return f()\n",
        "def make(n):\n    def clean(context):\n        return n\n    return clean\nclean = make(1)\n",
        "def make():\n    def clean(context):\n        return '''\n1\n'''\n    return clean\nclean = make()\n",
    ],
    ids=["a circle of calls", "inside a wrapper of a library", "in a closure", "a text with lines at the margin"],
)
def test_code_counts_however_it_is_nested(version_of: Callable[..., str], text: str) -> None:
    """A circle of references ends, a wrapper hides nothing, and a function within another is read to its end."""
    assert version_of(text) != version_of(changed("1", "2", text))


def test_the_declaration_is_no_code(version_of: Callable[..., str]) -> None:
    """Another output path, or a checkpoint mark, leaves the version; another decorator does not."""
    text = """
        from springline.spark_jobs.operations import OperationRegistry
        registry = OperationRegistry()
        operation = registry.operation
        def twice(function):
            def run(context):
                return function(context), function(context)
            return run
        @operation("clean", output="etl/{ds}/clean")
        def clean(context):
            return 1
    """
    before = version_of(text)
    assert version_of(changed('output="etl/{ds}/clean"', 'output="x/{ds}", checkpoint=True', text)) == before
    assert version_of(changed('@operation("', '@registry.operation("', text)) == before
    assert version_of(changed("        def clean", "        @twice\n        def clean", text)) != before


def test_code_of_libraries_counts_by_name_only() -> None:
    """Not by the text of the installed release: another Python must not give another version."""
    collector = CodeCollector(open_text)
    collector.collect()
    trees = {str(node.terms[0]) for node in collector.nodes.values() if "Def(" in "".join(map(str, node.terms))}
    assert "function springline.spark_jobs.nycflights:open_text" in trees
    assert not [label for label in trees if " springline." not in label]


def test_code_without_a_source_is_refused() -> None:
    """What was made by exec cannot be versioned, and the error says what to do."""
    scope: dict[str, object] = {"__name__": "springline.spark_jobs"}
    exec("def clean(context): return 1", scope)
    with pytest.raises(CodeVersionError, match="define it in a file"):
        code_version(scope["clean"])  # type: ignore[arg-type]


def test_what_is_declared_beside_the_code_counts() -> None:
    """The order of the sources, say, decides how recorded sources are read."""
    assert code_version(changed, declaration=("a", "b")) != code_version(changed, declaration=("b", "a"))


OF_A_PACKAGE = """
    from springline import Strategy

    from shop.prices import tax

    def clean(context):
        return tax(100), Strategy.ASYNC_STORE
"""


def version_in(folder: Path, tax: str) -> str:
    """The version of an operation of the package `shop`, which lies in `folder`, as another process computes it."""
    package = folder / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "prices.py").write_text(f"def tax(cents):\n    return {tax}\n")
    (package / "operations.py").write_text(dedent(OF_A_PACKAGE))
    code = (
        "from springline.spark_jobs.code.code_version import code_version; import shop.operations;"
        "print(code_version(shop.operations.clean))"
    )
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, text=True)


def test_where_a_package_lies_does_not_change_its_versions(tmp_path: Path) -> None:
    """In a folder of one's own, or installed; what another of its modules does counts in both."""
    own, installed = tmp_path / "mine", tmp_path / "lib" / "site-packages"
    assert version_in(own, "cents * 2") == version_in(installed, "cents * 2")
    assert version_in(tmp_path / "changed" / "site-packages", "cents * 3") not in version_in(own / "again", "cents * 2")


def test_what_the_platform_has_beside_its_spark_jobs_counts_by_name_only() -> None:
    """In the checkout too, where it lies in no folder of libraries: as in an installed package."""
    collector = CodeCollector(test_what_the_platform_has_beside_its_spark_jobs_counts_by_name_only)
    spark_jobs, other = sys.modules["springline.spark_jobs.errors"], sys.modules["springline.persistence.errors"]
    assert collector._is_our_module(spark_jobs)
    assert not collector._is_our_module(other)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import time\nV = time.time()\ndef clean(c): return V", r"pipeline:V: time.time\(\) returns another value"),
        ("import uuid as u\nV = [u.uuid4()]\ndef clean(c): return V", r"pipeline:V: uuid.uuid4\(\).*in the function"),
        ("V = ','.join({'a', 'b'})\ndef clean(c): return V", "pipeline:V: the order of the elements.*sort"),
        ("S = {'a', 'b'}\nV = [*S]\ndef clean(c): return V", "pipeline:V: the order of the elements.*sort"),
        (
            "import importlib\ndef clean(c): return importlib.import_module(c)",
            "pipeline: importlib.import_module.c. imports.*computed name.*statement",
        ),
    ],
    ids=["clock", "identifier", "joined set", "unpacked set", "computed import"],
)
def test_what_differs_in_each_process_is_refused_by_name_with_the_remedy(
    version_of: Callable[..., str], text: str, reason: str
) -> None:
    """It would make its datasets irrecoverable."""
    with pytest.raises(CodeVersionError, match=reason):
        version_of(text)


def test_where_a_project_lies_is_no_value_of_its_code(version_of: Callable[..., str]) -> None:
    """Each call of this fixture uses another folder; another file in it is another value."""
    text = """
        from pathlib import Path
        HERE = Path(__file__).parent
        RATES = str(HERE / "rates.csv")
        def clean(context): return HERE, RATES, __file__
    """
    assert version_of(text) == version_of(text)
    assert version_of(changed("rates.csv", "other.csv", text)) != version_of(text)


def test_a_parameter_is_not_the_function_of_that_name(version_of: Callable[..., str]) -> None:
    """Sources are often called like the operations that make them."""
    text = "def sales(context): return 1\ndef clean(context, sales): return [sales for sales in sales]\n"
    assert version_of(text) == version_of(changed("return 1", "return 2", text))
