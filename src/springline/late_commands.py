"""Lazily imported commands: the command line starts quickly although it consists of many modules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import CompletionItem, TyperGroup  # type: ignore[attr-defined]

from springline.extras import import_lazily

_HELP = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command: the function at `import_path`. The first line of its help is read from the source, without import."""

    import_path: str  # "package.module:function"
    settings: Mapping[str, Any] = field(default_factory=dict)  # of its Click context

    def load(self, name: str) -> Any:
        """Import the command and return it; raises `MissingExtraError`."""
        module, _, function = self.import_path.partition(":")
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        command = getattr(import_lazily(module, name), function)
        app.command(name, context_settings={**_HELP, **self.settings})(command)
        return typer.main.get_command(app)

    def summary(self) -> str:
        """Return the first line of its docstring."""
        module, _, function = self.import_path.partition(":")
        spec = find_spec(module)
        source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name == function:
                return (ast.get_docstring(node) or "").partition("\n")[0]
        raise LookupError(f"{module} has no function {function}")


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """A group of commands under one noun."""

    help: str
    commands: Mapping[str, LazyCommand | CommandGroup]

    def summary(self) -> str:
        """Return the first line of its help."""
        return self.help.partition("\n")[0]

    def load(self, name: str) -> Any:
        """Build the Click group of these commands."""
        return _group_class(self.commands)(
            name=name, help=self.help, no_args_is_help=True, context_settings=dict(_HELP), rich_markup_mode=None
        )


class _Commands(Mapping[str, Any]):
    """The commands of a group by name, each loaded on first access."""

    def __init__(self, entries: Mapping[str, LazyCommand | CommandGroup]) -> None:
        self.entries = entries
        self._loaded_commands: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded_commands:
            self._loaded_commands[name] = self.entries[name].load(name)
        return self._loaded_commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class LazyGroup(TyperGroup):
    """A group that imports each command when it is called."""

    entries: ClassVar[Mapping[str, LazyCommand | CommandGroup]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(self.entries)  # type: ignore[assignment]  # no command is added later

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in order of declaration."""
        return list(self.commands)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        """Return the completions for a shell, without importing any command."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        matching_names = (name for name in self.entries if name.startswith(incomplete))
        return [CompletionItem(name, help=self.entries[name].summary()) for name in matching_names]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands into a help, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary().rstrip(".")) for name, each in self.entries.items()])


def _group_class(entries: Mapping[str, LazyCommand | CommandGroup]) -> type[LazyGroup]:
    """Return a subclass of `LazyGroup` with these entries; Typer instantiates the group from its class."""
    return type("LazyGroup", (LazyGroup,), {"entries": entries})


def build_app(
    help_: str, entries: Mapping[str, LazyCommand | CommandGroup], options: Callable[..., None]
) -> typer.Typer:
    """Build a command line of lazy commands; the parameters of `options` are its global options, before the command."""
    app = typer.Typer(
        cls=_group_class(entries),
        help=help_,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=dict(_HELP),
    )
    app.callback()(options)
    return app
