# ruff: noqa: E501  (one way to reach a value a line)
"""A code version changes with every value that the code can reach, and with nothing else, in any process.

Each example is a way to reach a value, and two values of a kind.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from springline.spark_jobs.code.code_version import code_version
from springline.spark_jobs.errors import CodeVersionError

IMPORTS = """
import abc, array, collections, contextlib, dataclasses, datetime, decimal, enum, fractions, functools, operator, os
import pathlib, re, struct, threading, types, typing, uuid, zoneinfo
import numpy as np
import pandas as pd
from pyspark.sql import types as T
"""
VALUES = {
    "int": ("119", "105"),
    "bool": ("1", "True"),
    "negative zero": ("0.0", "-0.0"),
    "number of thousands of digits": ("10**5000", "10**5001"),
    "text of any script": ("'Zürich \\udc80'", "'Zürich \\udc81'"),
    "bytes": ("b'a'", "b'b'"),
    "decimal": ("decimal.Decimal('1.19')", "decimal.Decimal('1.190')"),
    "fraction": ("fractions.Fraction(1, 3)", "fractions.Fraction(2, 3)"),
    "date": ("datetime.date(2026, 1, 1)", "datetime.date(2026, 1, 2)"),
    "fold of a time": ("datetime.datetime(2026, 1, 1, fold=0)", "datetime.datetime(2026, 1, 1, fold=1)"),
    "zone": ("zoneinfo.ZoneInfo('Europe/Berlin')", "zoneinfo.ZoneInfo('Europe/Paris')"),
    "offset": ("datetime.timezone(datetime.timedelta(hours=1))", "datetime.timezone(datetime.timedelta(hours=2))"),
    "uuid": ("uuid.UUID(int=1)", "uuid.UUID(int=2)"),
    "path": ("pathlib.Path('a')", "pathlib.Path('b')"),
    "pattern": ("re.compile('a')", "re.compile('a', re.IGNORECASE)"),
    "struct": ("struct.Struct('<i')", "struct.Struct('>i')"),
    "list": ("[1, 2]", "[2, 1]"),
    "tuple or list": ("(1, [2])", "(1, (2,))"),
    "dict": ("{'a': 1, 'b': {'c': [1]}}", "{'a': 1, 'b': {'c': [2]}}"),
    "set": ("{'a', 'b', 'c'}", "{'a', 'b', 'd'}"),
    "set of objects": ("{decimal.Decimal(1), 'b', None}", "{decimal.Decimal(2), 'b', None}"),
    "set of functions": ("{len, str.upper, (lambda x: x)}", "{len, str.upper, (lambda x: -x)}"),
    "deque": ("collections.deque([1], 5)", "collections.deque([1], 6)"),
    "ordered": ("collections.OrderedDict(a=1, b=2)", "collections.OrderedDict(b=2, a=1)"),
    "default of a dict": ("collections.defaultdict(int)", "collections.defaultdict(float)"),
    "counter": ("collections.Counter('ab')", "collections.Counter('abb')"),
    "read-only dict": ("types.MappingProxyType({'a': 1})", "types.MappingProxyType({'a': 2})"),
    "namespace": ("types.SimpleNamespace(rate=1)", "types.SimpleNamespace(rate=2)"),
    "tuple with names": ("collections.namedtuple('P', 'x')(1)", "collections.namedtuple('P', 'y')(1)"),
    "enum": ("enum.Enum('C', 'RED').RED", "enum.Enum('C', 'RED', start=3).RED"),
    "flag": ("enum.Flag('C', 'A B')(1)", "enum.Flag('C', 'A B')(3)"),
    "class": ("type('C', (), {'rate': 1})", "type('C', (), {'rate': 2})"),
    "instance of a class": ("type('C', (), {'rate': 1})()", "type('C', (), {'rate': 2})()"),
    "dataclass": (
        "dataclasses.make_dataclass('C', [('x', int, 1)])()",
        "dataclasses.make_dataclass('C', [('x', int, 2)])()",
    ),
    "range": ("range(5)", "range(6)"),
    "slice": ("slice(5)", "slice(6)"),
    "array": ("array.array('i', [1])", "array.array('i', [2])"),
    "vector": ("np.array([1, 2])", "np.array([1, 3])"),
    "type of a number": ("np.float32(1)", "np.float64(1)"),
    "table": ("pd.DataFrame({'a': [1, 2]})", "pd.DataFrame({'a': [1, 3]})"),
    "schema": ("T.StructType([T.StructField('a', T.LongType())])", "T.StructType([T.StructField('a', T.IntegerType())])"),
    "partial": ("functools.partial(max, 1)", "functools.partial(max, 2)"),
    "method": ("'a'.join", "'b'.join"),
    "method of a class": ("collections.Counter('a').total", "collections.Counter('aa').total"),
    "function": ("operator.add", "operator.sub"),
    "getter": ("operator.itemgetter(1)", "operator.itemgetter(2)"),
    "lambda": ("lambda x: x + 1", "lambda x: x + 2"),
    "one lambda of several": ("(lambda x: x, lambda x: -x)[0]", "(lambda x: x, lambda x: -x)[1]"),
    "lambda in a lambda": ("lambda: lambda x: x", "lambda: lambda x: -x"),
    "cached function": ("functools.lru_cache(lambda x: x)", "functools.lru_cache(lambda x: -x)"),
    "cache": ("functools.lru_cache(5)(operator.add)", "functools.lru_cache(6)(operator.add)"),
    "cycle": ("(lambda a: a.append(a) or a)([1])", "(lambda a: a.append(a) or a)([2])"),
    "generator": ("(x for x in [1])", "(x for x in [2])"),
    "lock": ("threading.BoundedSemaphore(1)", "threading.BoundedSemaphore(2)"),
}  # fmt: skip

SCALER = "def scaler(n):\n    def scale(x):\n        return x, n\n    return scale\n"
PLACES = {  # files of a package `shop`; the version is that of shop.pipeline.clean
    "constant": {"pipeline": "VALUE = $\ndef clean(c):\n    return VALUE"},
    "attribute of a module": {"rates": "VALUE = $", "pipeline": "from shop import rates\ndef clean(c): return rates.VALUE"},
    "attribute of a package": {"rates": "VALUE = $", "pipeline": "import shop.rates\ndef clean(c): return shop.rates.VALUE"},
    "alias": {"rates": "VALUE = $", "pipeline": "import shop.rates as r\ndef clean(c): return r.VALUE"},
    "import by name": {"rates": "VALUE = $", "pipeline": "from shop.rates import VALUE as v\ndef clean(c): return v"},
    "import of all": {"rates": "VALUE = $", "pipeline": "from shop.rates import *\ndef clean(c): return VALUE"},
    "relative module": {"rates": "VALUE = $", "pipeline": "from . import rates\ndef clean(c): return rates.VALUE"},
    "relative name": {"rates": "VALUE = $", "pipeline": "from .rates import VALUE\ndef clean(c): return VALUE"},
    "over two modules": {
        "rates": "VALUE = $", "more": "from .rates import *", "pipeline": "from .more import VALUE\ndef clean(c): return VALUE",
    },
    "import inside": {"rates": "VALUE = $", "pipeline": "def clean(c):\n    from shop import rates\n    return rates.VALUE"},
    "relative inside": {"rates": "VALUE = $", "pipeline": "def clean(c):\n    from .rates import VALUE\n    return VALUE"},
    "package inside": {"rates": "VALUE = $", "pipeline": "def clean(c):\n    import shop.rates\n    return shop.rates.VALUE"},
    "in an inner function": {
        "rates": "VALUE = $", "pipeline": "def clean(c):\n    from . import rates\n    return [rates.VALUE for _ in c]",
    },
    "module as a value": {"rates": "VALUE = $", "pipeline": "from . import rates\ndef clean(c): return getattr(rates, 'VALUE')"},
    "import by a call": {
        "rates": "VALUE = $", "pipeline": "import importlib\ndef clean(c): return importlib.import_module('shop.rates').VALUE",
    },
    "globals": {"pipeline": "VALUE = $\ndef clean(c): return globals()['VALUE']"},
    "folder without __init__": {
        "sub/rates": "VALUE = $", "pipeline": "def clean(c):\n    from shop.sub.rates import VALUE\n    return VALUE",
    },
    "try": {"pipeline": "try:\n    VALUE = $\nexcept ImportError:\n    VALUE = None\ndef clean(c): return VALUE"},
    "if": {"pipeline": "if True:\n    VALUE = $\nelse:\n    VALUE = None\ndef clean(c): return VALUE"},
    "with": {"pipeline": "with contextlib.suppress(KeyError):\n    VALUE = $\ndef clean(c): return VALUE"},
    "loop": {"pipeline": "TABLE = []\nfor each in [$]:\n    TABLE.append(each)\ndef clean(c): return TABLE"},
    "tuple": {"pipeline": "OTHER, VALUE = 1, $\ndef clean(c): return VALUE"},
    "starred": {"pipeline": "OTHER, *VALUES = 1, $\ndef clean(c): return VALUES"},
    "walrus": {"pipeline": "OTHER = [VALUE := $]\ndef clean(c): return VALUE"},
    "changed later": {"pipeline": "TABLE = {}\nTABLE['a'] = $\ndef clean(c): return TABLE"},
    "made by a function": {"pipeline": "def make():\n    return [$]\nVALUE = make()\ndef clean(c): return VALUE"},
    "default": {"pipeline": "def clean(c, value=$): return value"},
    "keyword default": {"pipeline": "def clean(c, *, value=$): return value"},
    "closure": {"pipeline": SCALER + "clean = scaler($)"},
    "closures of a factory": {"pipeline": SCALER + "vat, toll = scaler($), scaler(0)\ndef clean(c): return vat(1), toll(1)"},
    "default in a factory": {
        "pipeline": "def make(n):\n    def f(x, n=n): return n\n    return f\nf = make($)\ndef clean(c): return f(1)",
    },
    "class in a factory": {
        "pipeline": "def make(n):\n    class C:\n        def rate(self): return n\n    return C\n"
        "C = make($)\ndef clean(c): return C().rate()",
    },
    "attribute of a class": {"pipeline": "class C:\n    value = $\ndef clean(c): return C.value"},
    "attribute of a base": {"pipeline": "class B:\n    value = $\nclass C(B): pass\ndef clean(c): return C().value"},
    "set on a class": {"pipeline": "class C: pass\nC.value = $\ndef clean(c): return C.value"},
    "instance": {
        "pipeline": "class C:\n    def __init__(self, v): self.v = v\nRULE = C($)\ndef clean(c): return RULE.v",
    },
    "slots": {
        "pipeline": "class C:\n    __slots__ = ('v',)\nRULE = C()\nRULE.v = $\ndef clean(c): return RULE.v",
    },
    "bound method": {
        "pipeline": "class C:\n    def __init__(self, v): self.v = v\n    def rate(self): return self.v\n"
        "rate = C($).rate\ndef clean(c): return rate()",
    },
    "class method": {"pipeline": "class C:\n    v = $\n    @classmethod\n    def f(cls): return cls.v\nf = C.f\ndef clean(c): return f()"},
    "property": {"pipeline": "V = $\nclass C:\n    @property\n    def f(self): return V\ndef clean(c): return C().f"},
    "lazy property": {"pipeline": "V = $\nclass C:\n    @functools.cached_property\n    def f(self): return V\ndef clean(c): return C().f"},
    "field": {
        "pipeline": "@dataclasses.dataclass(frozen=True)\nclass C:\n    v: object\nRULE = C($)\ndef clean(c): return RULE",
    },
    "factory of a field": {
        "pipeline": "def make(n):\n    @dataclasses.dataclass(slots=True)\n    class C:\n"
        "        v: object = dataclasses.field(default_factory=lambda: n)\n    return C\nC = make($)\ndef clean(c): return C()",
    },
    "typed tuple": {"pipeline": "class P(typing.NamedTuple):\n    v: object = ($,)\ndef clean(c): return P()"},
    "named tuple": {"pipeline": "P = collections.namedtuple('P', 'v', defaults=[$])\ndef clean(c): return P()"},
    "member": {"pipeline": "class C(enum.Enum):\n    A = ($,)\ndef clean(c): return C.A"},
    "members": {"pipeline": "C = enum.Enum('C', {'A': ($,)})\ndef clean(c): return C.A"},
    "type": {"pipeline": "C = type('C', (), {'v': $})\ndef clean(c): return C.v"},
    "abstract": {"pipeline": "class B(abc.ABC):\n    v = $\nclass C(B): pass\ndef clean(c): return C()"},
    "metaclass": {"pipeline": "class M(type):\n    v = $\nclass C(metaclass=M): pass\ndef clean(c): return C.v"},
    "partial": {"pipeline": "f = functools.partial(print, end=$)\ndef clean(c): return f()"},
    "decorator": {
        "pipeline": "def with_rate(n):\n    def wrap(f):\n        @functools.wraps(f)\n        def run(c): return f(c), n\n"
        "        return run\n    return wrap\n@with_rate($)\ndef clean(c): return 1",
    },
    "decorator that is a class": {
        "pipeline": "class With:\n    def __init__(self, f, n):\n        functools.update_wrapper(self, f)\n        self.n = n\n"
        "    def __call__(self, c): return self.n\n@functools.partial(With, n=$)\ndef f(c): return 1\ndef clean(c): return f(c)",
    },
    "within a wrapper": {"pipeline": "V = $\n@functools.lru_cache(maxsize=1)\ndef f(): return V\ndef clean(c): return f()"},
    "manager": {"pipeline": "V = $\n@contextlib.contextmanager\ndef f(): yield V\ndef clean(c):\n    with f() as v: return v"},
    "dispatched": {
        "pipeline": "V = $\n@functools.singledispatch\ndef f(x): return 0\n@f.register\ndef _(x: int): return V\n"
        "def clean(c): return f(1)",
    },
    "attribute of a function": {"pipeline": "def f(): return f.v\nf.v = $\ndef clean(c): return f()"},
    "nested function": {"pipeline": "V = $\ndef clean(c):\n    def f():\n        return lambda: V\n    return f"},
    "comprehension": {"pipeline": "V = $\ndef clean(c): return [[V for _ in c] for _ in c]"},
    "called by called": {"pipeline": "V = $\ndef a(): return b\ndef b(): return a, V\ndef clean(c): return a()"},
    "in a set": {"pipeline": "def f(): return $\ndef g(): return F\nF = {f, g}\ndef clean(c): return F"},
    "beside a lock": {"pipeline": "PAIR = [threading.Lock(), $]\ndef clean(c): return PAIR"},
    "argument of an opaque object": {"pipeline": "V = $\nPAIR = (x for x in [V])\ndef clean(c): return PAIR"},
}  # fmt: skip

WHOLE_MODULES = {"module as a value", "import by a call", "globals"}  # every name of the module counts

SAME = {  # edits of a module that leave its code
    "comment": lambda text: "# comment\n" + text + "\n# the end",
    "blank lines": lambda text: "\n\n" + text.replace("\ndef clean", "\n\n\ndef clean"),
    "unrelated names": lambda text: (
        text + "\nUNRELATED = object()\ndef c(): return UNRELATED\ndef x(): pass\nn = self = 5\n"
    ),
    "order of imports": lambda text: "import this_is_not_there as t\n".replace("this_is_not_there", "json") + text,
    "docstring of a module": lambda text: '"""Says what it is."""\n' + text,
    "clock that nothing uses": lambda text: text + "\nimport time\nSTARTED = time.time()\n",
}

numbers = itertools.count()


def write_package(folder: Path, place: str, value: str, edit: str = "") -> None:
    """Write the modules of a place with this value, into a package `shop` below `folder`."""
    package = folder / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name, text in PLACES[place].items():
        (package / name).parent.mkdir(exist_ok=True)
        body = text.replace("$", f"({value})")
        body = SAME[edit](body) if edit else body
        future = "from __future__ import annotations\n"
        doc, body = ('"""Says what it is."""\n', body.removeprefix('"""Says what it is."""\n')) if edit else ("", body)
        (package / f"{name}.py").write_text(doc + future + IMPORTS + body + "\n", errors="surrogateescape")


def version_in(folder: Path) -> str:
    """The version of `shop.pipeline.clean` below `folder`, or why there is none."""
    sys.path.insert(0, str(folder))
    try:
        return code_version(import_module("shop.pipeline").clean)
    except CodeVersionError as error:
        return f"refused: {error}"
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
            del sys.modules[name]


def version_of(place: str, value: str, edit: str = "") -> str:
    """The version with this value in this place, in a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        write_package(Path(folder) / str(next(numbers)), place, value, edit)
        return version_in(next(Path(folder).iterdir()))


@given(st.sampled_from(sorted(PLACES)), st.sampled_from(sorted(VALUES)), st.sampled_from(sorted(SAME)))
def test_a_version_changes_with_any_value_that_is_reached_and_with_nothing_else(
    place: str, kind: str, edit: str
) -> None:
    """Wherever the value is, and of whatever type."""
    one, other = VALUES[kind]
    version = version_of(place, one)
    assert not version.startswith("refused")
    assert version_of(place, other) != version
    if place not in WHOLE_MODULES:
        assert version_of(place, one, edit) == version


PRINT_ALL = """
import sys
from tests.property.datasets.test_code_version_properties import PLACES, VALUES, version_of
for place in sorted(PLACES):
    print(place, version_of(place, VALUES["set of objects"][0]))
for kind in sorted(VALUES):
    print(kind, version_of("constant", VALUES[kind][0]), version_of("closures of a factory", VALUES[kind][1]))
"""


def test_every_process_computes_the_same_versions() -> None:
    """With another seed of hashes, optimised, in another folder."""
    versions = [
        subprocess.check_output(
            [sys.executable, *flags, "-W", "ignore", "-c", PRINT_ALL],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        ).splitlines()
        for seed, flags in (("1", []), ("2", ["-O"]))
    ]
    assert versions[0] == versions[1]
    assert not [line for line in versions[0] if "refused" in line]
