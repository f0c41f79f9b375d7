"""docs/glossary.md has every term of settings, commands, declarations and pages."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from docs.declarations_page import KINDS
from docs.settings_page import CLASSES
from springline.persistence.model.toml_table import keys_of
from springline.persistence.profile import project_folder
from springline.spark_jobs.streaming.kinds import load_kind

ROOT = project_folder()
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").lower()
PAGES = ROOT / "plugins" / "springline_airflow" / "pages" / "static"
# Words of everyday language, of computers in general, and of the products that are used.
PLAIN = frozenset([
    "began", "columns", "compared", "escape", "requested", "restored", "unpinned",
    "actions", "add", "alter", "archive", "auto", "backup", "bootstrap", "bundle", "ca", "cancel", "chromium",
    "columns", "counters", "filter", "look", "shown",
    "completion", "conf", "config", "controller", "cores", "datanode", "datanodes", "decision", "demo",
    "dependents", "dir", "doctor", "endpoint", "enter", "exec", "explicitly", "facts", "fit", "generate", "get",
    "heap", "http", "infinity", "init", "jars", "java", "kill", "left", "mark", "master", "maven", "metrics", "min",
    "namenode", "none", "options", "otlp", "password", "port", "postgres", "prefix", "proxy", "ramdisk",
    "remote", "replication", "repository", "routed", "search", "select", "server", "servers", "show", "sync",
    "their", "trigger", "unmark", "unpause", "unpin", "uri", "url", "wait", "web", "weights", "worker",
    "workers", "zoom", "any", "clear", "selected", "these",
])  # fmt: skip
_LABEL = re.compile(r'"([A-Z][a-z]+(?: [a-z-]+){0,3})"')  # of a column, a field or a button


def setting_names() -> Iterator[str]:
    for _, settings in CLASSES:
        yield from settings.model_fields


def command_names() -> Iterator[str]:
    text = (ROOT / "docs" / "reference-commands.md").read_text(encoding="utf-8")
    yield from re.findall(r"^#+ `?springline ([a-z -]+)", text, re.MULTILINE)


def declared_keys() -> Iterator[str]:
    for kind in KINDS:
        yield from (key.name for key in keys_of(load_kind(kind).keys))


def page_labels() -> Iterator[str]:
    for module in sorted(PAGES.glob("*.js")):
        yield from _LABEL.findall(module.read_text(encoding="utf-8"))


def is_explained(word: str) -> bool:
    """Whether the glossary has the word, in the singular or the plural."""
    forms = {word, f"{word}s", word.removesuffix("s"), re.sub("ies$", "y", word)}
    return any(re.search(rf"\b{form}\b", GLOSSARY) for form in forms)


@pytest.mark.parametrize("names", [setting_names, command_names, declared_keys, page_labels])
def test_the_glossary_has_every_term(names) -> None:  # type: ignore[no-untyped-def]
    """But for words that need no explanation."""
    listed = list(names())
    parts = {word for name in listed for word in re.findall(r"[a-z]{2,}", name.lower().replace("_", " "))}
    assert len(listed) > 10
    assert sorted(word for word in parts - PLAIN if not is_explained(word)) == []
