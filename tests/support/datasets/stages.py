"""Stages for faults: backends and runners that call out at named points, where a test lets something happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from springline.persistence.backends.local import LocalBackend
from springline.persistence.backends.spec import Backend, File, Manifest
from springline.persistence.engine.runner import Runner
from springline.persistence.model.dataset import Call, Operation, OperationResult
from springline.persistence.platform import Platform

At = Callable[[str, str], None]


def nothing(point: str, location: str) -> None:
    """What happens at a point where nothing is staged."""


def raise_(error: BaseException) -> Callable[..., None]:
    """What fails at a point, or wherever it is called."""

    def fail(*_: object) -> None:
        raise error

    return fail


class Staged(Backend):
    """A backend that says `at("rename", old)` before each call on it, and `at("rename done", old)` after."""

    def __init__(self, inner: LocalBackend, at: At = nothing) -> None:
        self.inner = inner
        self.at = at

    @property
    def root(self) -> Path:
        """The folder of the backend behind."""
        return self.inner.root

    def uri(self, location: str) -> str:
        return self.inner.uri(location)

    def exists(self, location: str) -> bool:
        return self.inner.exists(location)

    def mark_root(self) -> None:
        self.inner.mark_root()

    def files(self, location: str) -> tuple[File, ...]:
        self.at("files", location)
        return self.inner.files(location)

    def manifest(self, location: str) -> Manifest:
        self.at("manifest", location)
        return self.inner.manifest(location)

    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        self.at("chunks", location)
        for chunk in self.inner.chunks(location, name):
            yield chunk
            self.at("chunk done", location)

    def create(self, location: str, name: str, size: int) -> BinaryIO:
        self.at("create", location)
        return self.inner.create(location, name, size)

    def rename(self, old: str, new: str) -> None:
        self.at("rename", old)
        self.inner.rename(old, new)
        self.at("rename done", old)

    def delete(self, location: str) -> None:
        self.at("delete", location)
        self.inner.delete(location)
        self.at("delete done", location)

    def names(self, location: str) -> tuple[str, ...]:
        self.at("names", location)
        return self.inner.names(location)

    def locations(self, marker: str) -> Iterator[str]:
        return self.inner.locations(marker)

    def copies(self) -> Iterator[str]:
        return self.inner.copies()

    def read_small(self, location: str, name: str) -> bytes:
        self.at("read_small", location)
        return self.inner.read_small(location, name)

    def write_small(self, location: str, name: str, content: bytes) -> None:
        self.at("write_small", location)
        self.inner.write_small(location, name, content)


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
    parts: list[object] = [
        platform, platform.store, platform.store.sender, platform.persister.sender, platform.restorer,
        platform.restorer.verifier, platform.watch, platform.replacement, platform.maintenance,
    ]  # fmt: skip
    for part in parts:
        for name, staged in (("cache", cache), ("under", under), ("runner", runner)):
            if hasattr(part, name):
                setattr(part, name, staged)
    return cache, under, runner


def once(point: str, act: Callable[[], object], *, where: str = "") -> At:
    """Let `act` happen at the first `point` whose location holds `where`."""
    waiting = [act]

    def at(here: str, location: str) -> None:
        if here == point and where in location and waiting:
            waiting.pop()()

    return at
