"""Random histories of writes, evictions, losses of the cache and recoveries, under each strategy."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from springline.persistence.errors import IrrecoverableError
from springline.persistence.model.dataset import Dataset, Phase, Ref, Strategy
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.testing.lines import LinesRunner, digest_of, read_lines
from springline.testing.lines import make_dataset as make
from tests.support.datasets.states import wipe_cache
from tests.support.examples import examples

PATHS = ("a", "b", "c", "d", "e")
OPERATIONS = ("shout", "join", "salt", "load", "none")
WEIGHTS = {"write": 8, "persist": 2, "evict": 3, "read": 2, "recover": 2, "lose one": 2, "wipe": 2, "retire": 1}
KINDS = [kind for kind, weight in WEIGHTS.items() for _ in range(weight)]
EVENTS = st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(0, 4), st.integers(0, 4))
SMALL = 700  # bytes of a cache in which hardly anything fits
_memory = Path("/dev/shm")


def open_in(folder: Path, *, capacity: int) -> Platform:
    """A platform whose operations are honest: what is declared idempotent is."""
    runner = LinesRunner()
    runner.add("load", lambda sources, params: [f"{params['n']} {i}" for i in range(10)], idempotent=False)
    runner.add("salt", lambda sources, params: [f"{line} {random.random()}" for line in sources[0]], idempotent=False)
    runner.add("shout", lambda sources, params: [f"{line}!" for line in sources[0]])
    runner.add("join", lambda sources, params: [line for lines in sources for line in lines][:15])
    limits = {"cache_capacity": capacity, "min_operation_bytes": 0, "retry_seconds": 0, "sync_timeout": 0}
    settings = Settings(home=folder / "home", cache_uri=f"file://{folder}/cache", **limits)  # type: ignore[arg-type]
    return open_platform(settings, runner=runner)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A folder with a migrated catalog, from which each example starts."""
    with tempfile.TemporaryDirectory(dir=_memory if _memory.is_dir() else None) as folder:
        open_in(Path(folder), capacity=1 << 30).close()
        yield Path(folder)


class History:
    """What happened to a platform, and what may be gone by now."""

    def __init__(self, template: Path, strategy: Strategy, capacity: int) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=_memory if _memory.is_dir() else None))
        shutil.copytree(template / "home", self.folder / "home")
        self.platform = open_in(self.folder, capacity=capacity)
        self.catalog = self.platform.catalog
        self.strategy = strategy
        self.may_be_irrecoverable: set[Ref] = set()
        self.loads = 0

    def happen(self, kind: str, which: int, one: int, two: int) -> None:
        """Let one thing happen."""
        path = PATHS[which % len(PATHS)]
        self.room_may_be_made()
        if kind == "write":
            self.write(path, OPERATIONS[which % len(OPERATIONS)], [PATHS[one], PATHS[two]])
        elif kind == "persist":
            self.platform.persister.step()
        elif kind == "evict":
            self.evict(which * 200)
        elif kind == "read":
            for dataset in self.committed(path)[:1]:
                self.read(dataset)
        elif kind == "recover":
            self.platform.maintenance.scan()
            lost = [dataset.ref for dataset in self.platform.maintenance.find_lost()]
            assert self.platform.restorer.restore(lost).failed == {}
        elif kind == "retire":
            self.platform.maintenance.retire()
        elif kind == "lose one":
            for dataset in self.committed(path)[:1]:
                self.note_what_a_loss_may_take([dataset])
                self.platform.cache.delete(dataset.cache_location)
        elif kind == "wipe":
            self.note_what_a_loss_may_take(self.committed())
            wipe_cache(self.platform)

    def write(self, path: str, operation: str, sources: list[str]) -> None:
        """A task writes a path, if the sources that it reads can be read."""
        self.loads += 1
        committed_sources = [source for source in sources if source != path and self.committed(source)]
        source_count = {"shout": 1, "salt": 1, "join": 2}.get(operation, 0)
        if source_count > len(committed_sources):
            operation, source_count = "load", 0
        read_sources = committed_sources[:source_count]
        if any(self.committed(source)[0].ref in self.may_be_irrecoverable for source in read_sources):
            return
        if operation == "none":
            make(self.platform, path, lines=[f"by hand {self.loads}"], strategy=self.strategy)
        else:
            params = {"n": str(self.loads)}
            make(self.platform, path, operation, read_sources, strategy=self.strategy, params=params)

    def room_may_be_made(self) -> None:
        """A write, or or a recovery, may make room; only what cache_only wrote may be irrecoverable thereby."""
        if self.strategy is Strategy.CACHE_ONLY and self.platform.settings.cache_capacity <= SMALL:
            self.note_what_a_loss_may_take(self.committed())

    def evict(self, size: int) -> None:
        """Make room by hand; again only what cache_only wrote may be irrecoverable thereby."""
        if self.strategy is Strategy.CACHE_ONLY:
            self.note_what_a_loss_may_take(self.committed())
        for victim in self.platform.replacement.plan(size).victims:
            self.platform.replacement.evict(victim)

    def read(self, dataset: Dataset) -> None:
        """What may not be gone is read as it was written; what may be gone at least not otherwise."""
        self.room_may_be_made()
        try:
            with self.platform.store.read(dataset.ref.path, generation=dataset.ref.generation) as reading:
                assert digest_of(read_lines(reading.uri)) == dataset.digest
        except IrrecoverableError as error:
            assert dataset.ref in self.may_be_irrecoverable, error
            assert str(dataset.ref) in str(error)

    def note_what_a_loss_may_take(self, datasets: list[Dataset]) -> None:
        """What is neither persisted nor can be recomputed, by the promises, not by the code under test."""
        self.may_be_irrecoverable |= {d.ref for d in datasets if not d.persisted and not self.is_recomputable(d)}

    def is_recomputable(self, dataset: Dataset) -> bool:
        """An idempotent operation, and every source persisted or itself such a one."""
        if dataset.call is None or dataset.call.name not in ("shout", "join"):
            return False
        return all(source.persisted or self.is_recomputable(source) for source in self.catalog.get_all(dataset.sources))

    def committed(self, path: str = "") -> list[Dataset]:
        """The committed generations, the newest first."""
        return self.catalog.find(path=path, phase=Phase.COMMITTED)

    def close(self) -> None:
        """Remove everything."""
        self.platform.close()
        shutil.rmtree(self.folder)


@pytest.mark.parametrize("strategy", list(Strategy))
@given(
    events=st.lists(EVENTS, min_size=10, max_size=40),
    capacity=st.sampled_from([1 << 30, SMALL]),
    persisted_in_the_end=st.booleans(),
)
@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_that_is_persisted_or_recomputable_is_ever_lost_for_good(
    template: Path,
    strategy: Strategy,
    events: list[tuple[str, int, int, int]],
    capacity: int,
    persisted_in_the_end: bool,
) -> None:
    """Nor does an eviction take anything, save of cache_only; and under async_and_sync no loss of the cache does."""
    history = History(template, strategy, capacity)
    try:
        for event in events:
            history.happen(*event)
        if persisted_in_the_end:
            history.platform.persister.drain()
        for dataset in history.committed():
            history.read(dataset)
        if strategy in (Strategy.ASYNC_AND_SYNC, Strategy.CACHE_THROUGH):
            assert not history.may_be_irrecoverable
    finally:
        history.close()
