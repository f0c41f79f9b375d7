"""Stages for faults: backends and runners that call out at named points, where a test lets something happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from springline.persistence.backends.local import LocalBackend
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.engine.runner import Runner
from springline.persistence.model.dataset import Call, Operation, OperationResult
from springline.persistence.platform import Platform

At = Callable[[str, str], None]
Under = TypeVar("Under", bound=UnderStore)


def nothing(point: str, location: str) -> None:
    """What happens at a point where nothing is staged."""


def raise_(error: BaseException) -> Callable[..., None]:
    """What fails at a point, or wherever it is called."""

    def fail(*_: object) -> None:
        raise error

    return fail


class Staged:
    """A backend that says `at("publish", location)` before such a call on it, and `at("publish done", …)` after."""

    _BEFORE = ("files", "manifest", "create", "publish", "delete", "names", "read_manifest")
    _AFTER = ("publish", "delete")
    holds, unavailable_reason, read_range = UnderStore.holds, Backend.unavailable_reason, Backend.read_range

    def __init__(self, inner: LocalBackend, at: At = nothing) -> None:
        self.inner = inner
        self.at = at

    def __getattr__(self, name: str) -> Any:
        """A method of the backend behind, with its points; or an attribute as it is."""
        method = getattr(self.inner, name)
        if name not in self._BEFORE:
            return method

        def call(location: str, *arguments: object) -> object:
            self.at(name, location)
            result = method(location, *arguments)
            if name in self._AFTER:
                self.at(f"{name} done", location)
            return result

        return call

    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        """Say `at("chunks", location)` before the first chunk and `at("chunk done", location)` after each."""
        self.at("chunks", location)
        for chunk in self.inner.chunks(location, name):
            yield chunk
            self.at("chunk done", location)


class StagedRunner(Runner):
    """A runner that says `at("run", operation)` before a run and `at("run done", operation)` after it."""

    def __init__(self, inner: Runner, at: At = nothing) -> None:
        self.inner = inner
        self.at = at

    def operations(self) -> Mapping[str, Operation]:
        return self.inner.operations()

    def run(self, call: Call, sources: Sequence[str], output: str) -> OperationResult:
        self.at("run", call.name)
        written = self.inner.run(call, sources, output)
        self.at("run done", call.name)
        return written


def stage(platform: Platform, at: At = nothing) -> tuple[Staged, Staged, StagedRunner]:
    """Put stages around the platform's cache, under-store and runner, in every part that uses them."""
    assert isinstance(platform.cache, LocalBackend) and isinstance(platform.under, LocalBackend)
    cache, under, runner = Staged(platform.cache, at), Staged(platform.under, at), StagedRunner(platform.runner, at)
    _replace(platform, cache=cache, under=under, runner=runner)
    return cache, under, runner


def replace_under_store(platform: Platform, under: Under) -> Under:
    """Let every part of the platform use another under-store."""
    _replace(platform, under=under)
    return under


def _replace(platform: Platform, **attributes: object) -> None:
    parts: list[object] = [
        platform, platform.store, platform.store.sender, platform.persister.sender, platform.restorer,
        platform.restorer.verifier, platform.watch, platform.replacement, platform.maintenance, platform.prover,
    ]  # fmt: skip
    for part in parts:
        for name, replaced in attributes.items():
            if hasattr(part, name):
                setattr(part, name, replaced)


def once(point: str, act: Callable[[], object], *, where: str = "") -> At:
    """Let `act` happen at the first `point` whose location holds `where`."""
    waiting = [act]

    def at(here: str, location: str) -> None:
        if here == point and where in location and waiting:
            waiting.pop()()

    return at
