"""What is public: the documents import nothing else, and each name says what it is, with an example that runs."""

from __future__ import annotations

import builtins
import doctest
import inspect
import re
from enum import Enum
from importlib import import_module
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

import springline
import springline.errors
import springline.formats
import springline.stream_kinds
import springline.testing
from docs.python_page import PUBLIC, describe_in_process
from springline.persistence.profile import project_folder
from springline.spark_jobs.settings import JobSettings

ROOT = project_folder()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
NAMES = [
    (module, name)
    for module in (springline, springline.testing, springline.stream_kinds, springline.formats)
    for name in module.__all__
    if inspect.isclass(getattr(module, name)) or inspect.isroutine(getattr(module, name))  # values have texts
]
every_name = pytest.mark.parametrize(("module", "name"), NAMES, ids=[f"{m.__name__}.{n}" for m, n in NAMES])
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_FROM = re.compile(r"\bfrom (springline(?:\.[\w.]+)?) import (\([^)]*\)|[^\n#\"']+)")
_IMPORT = re.compile(r"\bimport (springline(?:\.[\w.]+)?)\b(?!_)")


def imports_in(text: str) -> list[tuple[str, str]]:
    """The module and the name of everything of ours that the code blocks of a document import."""
    code = "\n".join(_FENCE.findall(text))
    imports = [
        (module, name.split(" as ")[0].strip())
        for module, names in _FROM.findall(code)
        for name in names.strip("()\n ").replace("...", "").split(",")
        if name.strip()
    ]
    return imports + [(module, "") for module in _IMPORT.findall(_FROM.sub("", code))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_import_public_names_alone(document: Path) -> None:
    """From the module that has them, so that what a person copies goes on working."""
    for module, name in imports_in(document.read_text(encoding="utf-8")):
        assert module in PUBLIC, f"{document.name}: from {module} import {name}"
        assert name in {"", "*", *import_module(module).__all__}, f"{document.name}: from {module} import {name}"


@every_name
def test_a_public_name_says_what_it_is_with_an_example(module: object, name: str) -> None:
    """In its own words, not those of a class above it, and with every argument."""
    public = getattr(module, name)
    doc = inspect.cleandoc(public.__doc__ or "")
    assert re.search(r"^Example:$", doc, re.MULTILINE), f"{name} has no example"
    assert doc.index("Example:") > 0, f"{name} does not say what it is"
    if inspect.isclass(public) and issubclass(public, Enum | BaseSettings | Exception):
        return
    parameters = inspect.signature(public).parameters.values()
    named = [each for each in parameters if each.kind is not each.VAR_POSITIONAL]
    missing = [each.name for each in named if not re.search(rf"(^|\s){each.name}: |`{each.name}`", doc)]
    assert missing in ([], ["args", "kwargs"], ["kwargs"]), f"{name} does not tell what {', '.join(missing)} is"


@pytest.mark.parametrize("module", PUBLIC[:-1])
def test_the_example_of_a_public_module_runs(module: str, tmp_path: Path) -> None:
    """As it stands."""
    run(import_module(module).__doc__ or "", module, tmp_path)


@every_name
def test_the_example_of_a_public_name_runs(module: object, name: str, tmp_path: Path) -> None:
    """What needs Spark or a file of one's own stands as a block of code, and is not run."""
    run(getattr(module, name).__doc__ or "", name, tmp_path)


def run(doc: str, name: str, folder: Path) -> None:
    """Run the example of a docstring, with the public names and an empty folder."""
    public_names = {each: getattr(module, each) for module, each in NAMES if each in doc}
    example = doctest.DocTestParser().get_doctest(doc, {**public_names, "Path": Path, "folder": folder}, name, None, 0)
    printed: list[str] = []
    assert doctest.DocTestRunner().run(example, out=printed.append).failed == 0, "".join(printed)


@pytest.mark.parametrize("settings", [springline.Settings, JobSettings])
def test_every_setting_says_what_it_is(settings: type[BaseSettings]) -> None:
    """`Settings` has its arguments there, and the page of settings is made of them."""
    assert all(field.description for field in settings.model_fields.values())


def test_every_public_error_says_when_it_is_raised() -> None:
    """And no two have the same name."""
    for name in springline.errors.__all__:
        error = getattr(springline.errors, name)
        assert issubclass(error, Exception) and error.__doc__, name
        assert error.__name__ == name


def test_every_error_that_a_public_name_documents_is_public() -> None:
    """Or Python's own, or one of pydantic-settings: whoever calls can catch it."""
    public_names = {*springline.errors.__all__, *springline.testing.__all__, "SettingsError"}
    for module, name in NAMES:
        section = inspect.cleandoc(getattr(module, name).__doc__ or "").partition("Raises:\n")[2].partition("\n\n")[0]
        for error in re.findall(r"^    (\w+): ", section, re.MULTILINE):
            assert error in public_names or hasattr(builtins, error), f"{name}: {error}"


@pytest.mark.parametrize("module", ["springline.airflow", "springline.stream_kinds", "springline.formats"])
def test_names_and_values_say_what_they_are(module: str) -> None:
    """Those for DAG files need Airflow, so a process of its own checks."""
    names = describe_in_process(module)["names"]
    assert names
    assert [each["name"] for each in names if not each["doc"]] == []


def test_the_summary_of_the_package_and_the_page_name_every_public_name() -> None:
    """In `help(springline)`, and under a heading of its own, or in the table of errors; the page is the code's."""
    page = (ROOT / "docs" / "reference-python.md").read_text(encoding="utf-8")
    assert [name for _, name in NAMES if f"\n### {name}\n" not in page] == []
    assert [name for name in springline.errors.__all__ if f"\n| `{name}` |" not in page] == []
    for module in (springline, springline.testing, springline.stream_kinds, springline.formats):
        summary = set(re.findall(r"\w+", (module.__doc__ or "").partition("Example:")[0]))
        assert set(module.__all__) <= summary, module.__name__


def test_what_is_private_says_so() -> None:
    """The map by one sentence, the package by the same, and each package below by one of its own."""
    where = ", ".join(f"`{module}`" for module in PUBLIC[:-1]) + f" and `{PUBLIC[-1]}`"
    text = " ".join((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split())
    assert f"Public are the names in `__all__` of {where}; whatever else is imported from below" in text
    assert "is private and may change" in text
    for module in PUBLIC[1:]:
        assert f"`{module}`" in (springline.__doc__ or "")
    for package in ("persistence", "spark_jobs", "services"):
        assert "Private, like all subpackages" in (import_module(f"springline.{package}").__doc__ or "")
