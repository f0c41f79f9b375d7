"""Commands that are imported when they are called: a command line of many modules that starts at once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import CompletionItem, TyperGroup  # type: ignore[attr-defined]

from springline.extras import import_late

_HELP = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True)
class Late:
    """A command: the function `name` of a module. Its first line of help is read from the source, without import."""

    place: str  # "package.module:function"
    settings: Mapping[str, Any] = field(default_factory=dict)  # of its context

    def load(self, name: str) -> Any:
        """The command, imported now; raises `MissingExtraError`."""
        module, _, function = self.place.partition(":")
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        command = getattr(import_late(module, name), function)
        app.command(name, context_settings={**_HELP, **self.settings})(command)
        return typer.main.get_command(app)

    def summary(self) -> str:
        """What it does, in a line."""
        module, _, function = self.place.partition(":")
        spec = find_spec(module)
        source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name == function:
                return (ast.get_docstring(node) or "").partition("\n")[0]
        raise LookupError(f"{module} has no function {function}")


@dataclass(frozen=True, slots=True)
class Branch:
    """Commands under one noun."""

    help: str
    commands: Mapping[str, Late | Branch]

    def summary(self) -> str:
        """What its commands are about."""
        return self.help.partition("\n")[0]

    def load(self, name: str) -> Any:
        """The group of these commands."""
        return _class_of(self.commands)(
            name=name, help=self.help, no_args_is_help=True, context_settings=dict(_HELP), rich_markup_mode=None
        )


class _Commands(Mapping[str, Any]):
    """The commands of a group by name, each made when it is asked for."""

    def __init__(self, entries: Mapping[str, Late | Branch]) -> None:
        self.entries = entries
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self.entries[name].load(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class LateGroup(TyperGroup):
    """A group whose commands are imported one by one, when they are called."""

    entries: ClassVar[Mapping[str, Late | Branch]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(self.entries)  # type: ignore[assignment]  # nobody adds one

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order in which they are declared."""
        return list(self.commands)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        """What a shell offers, without importing any of them."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        fitting = (name for name in self.entries if name.startswith(incomplete))
        return [CompletionItem(name, help=self.entries[name].summary()) for name in fitting]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list in a help, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary().rstrip(".")) for name, each in self.entries.items()])


def _class_of(entries: Mapping[str, Late | Branch]) -> type[LateGroup]:
    """The kind of group that holds these; Typer makes the group itself, from its class."""
    return type("LateGroup", (LateGroup,), {"entries": entries})


def command_line(help_: str, entries: Mapping[str, Late | Branch], options: Callable[..., None]) -> typer.Typer:
    """A command line of late commands; the parameters of `options` are what it takes itself, before any of them."""
    app = typer.Typer(
        cls=_class_of(entries),
        help=help_,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=dict(_HELP),
    )
    app.callback()(options)
    return app
