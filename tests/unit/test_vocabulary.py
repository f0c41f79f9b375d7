"""Names are the field's words: no name that stands for everything, no class twice, modules named by a thing."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from springline.persistence.profile import project_folder

ROOT = project_folder()
SUITES = ("tests", "benchmarks")
PACKAGES = ("persistence", "spark_jobs", "services", "plugins", "src/springline", "baselines", "dags")
# Participles, adjectives and adverbs that name nothing: which thing was found, held, told?
BANNED = frozenset([
    "told", "found", "held", "kept", "taken", "wanted", "given", "made", "seen", "known", "words", "whole", "room",
    "again", "trouble", "behind", "look", "born", "still", "pace", "gone", "lows", "through", "who", "why",
    "chosen", "begun", "done", "due", "beat",
])  # fmt: skip
# Beside these, what tests and benchmarks called restarts, addresses, processes, dead letters, simulations and polls.
BANNED_IN_TESTS = BANNED | {"mend", "heard_on", "living", "letters", "world", "helm", "looks"}
# Where such a word is the field's own, or somebody else's name.
ALLOWED = {"persistence/decisions/policies.py": {"known"}}
GERUNDS = {  # modules that end in -ing, and why
    "accounting": "the bookkeeping of bytes by edge",
    "bucket_packing": "the algorithm's name",
    "encoding": "the form of what is sent",
    "formatting": "texts for people",
    "grouping": "GROUP BY, and groups in the lineage",
    "hashing": "hash functions",
    "landing": "the landing folder",
    "listing": "what a folder lists",
    "rendering": "tables for people",
    "ring": "a thing",
    "routing": "of edges in a drawing",
    "secret_masking": "Airflow's word",
    "tracking": "the acker's business",
    "water_filling": "the algorithm's name",
    "windowing": "the WINDOWING clause",
}


def modules(*suffixes: str, packages: tuple[str, ...] = PACKAGES) -> Iterator[Path]:
    """Every module of the product, or of some packages, links left out."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in suffixes and not any(parent.is_symlink() for parent in (path, *path.parents)):
                yield path


@cache
def syntax_tree(path: Path) -> ast.Module:
    """Parsed once for all tests here."""
    return ast.parse(path.read_text(encoding="utf-8"))


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """What a module gives a name to: variables, parameters, attributes, functions, classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno


@pytest.mark.parametrize(("packages", "banned"), [(PACKAGES, BANNED), (SUITES, BANNED_IN_TESTS)])
def test_no_name_stands_for_everything(packages: tuple[str, ...], banned: frozenset[str]) -> None:
    """A name says which thing it is."""
    vague = []
    for path in modules(".py", packages=packages):
        place = str(path.relative_to(ROOT))
        for name, line in bound_names(syntax_tree(path)):
            if name.strip("_").lower() in banned - ALLOWED.get(place, set()):
                vague.append(f"{place}:{line}: {name}")
    assert not vague, "\n".join(vague)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_class_name_stands_twice_in_a_package(package: str) -> None:
    """Whoever reads a name knows which class it is."""
    places = defaultdict(list)
    for path in modules(".py", packages=(package,)):
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in places.items() if len(paths) > 1}


def test_modules_are_named_by_a_thing() -> None:
    """A module in -ing is one of those with a reason, and each reason has its module."""
    names = {path.stem for path in modules(".py", ".js")}
    assert {name for name in names if name.endswith("ing")} == set(GERUNDS)
    assert not {name for name in names if name.strip("_") in BANNED}
    in_suites = {path.stem.replace("dead_letters", "") for path in modules(".py", packages=SUITES)}
    assert not {name for name in in_suites if BANNED_IN_TESTS & set(name.split("_"))}


# Phrases of no field: what was reported, started, recomputed, lost, checked?
PHRASES = re.compile(
    r"\b(told|tells|anew|borne|gone for good|made again|came of|looked at|taken up|given up|begun)\b", re.IGNORECASE
)
TEXTS = ("README.md", "docs/*.md", "docs/*.py")
RECORDED = {"docs/benchmarks.md"}  # has remarks of benchmarks as they were recorded


def test_texts_use_the_terms_of_the_field() -> None:
    """Documents, docstrings, comments, messages and labels."""
    documents = {path for pattern in TEXTS for path in ROOT.glob(pattern)}
    stale = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in sorted({*documents, *modules(".py", ".js", ".html", ".toml")})
        if str(path.relative_to(ROOT)) not in RECORDED
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in PHRASES.finditer(line)
    ]
    assert not stale, "\n".join(stale)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of docstrings and comments, and names of functions in words; other strings are data."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name.replace("_", " ")
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            docstring = node.body[0]
            yield from enumerate(lines[docstring.lineno - 1 : docstring.end_lineno], docstring.lineno)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_tests_and_benchmarks_use_the_terms_of_the_field() -> None:
    """Their names, docstrings and comments; this file lists the phrases."""
    stale = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in modules(".py", packages=SUITES)
        if path != Path(__file__)
        for number, line in prose(path)
        for match in PHRASES.finditer(line)
    ]
    assert not stale, "\n".join(stale)
