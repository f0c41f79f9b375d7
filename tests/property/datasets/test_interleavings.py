"""Workers, zombies, an evictor, readers and maintenance on one catalog, interleaved amid transfers."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from springline.persistence.decisions.eviction import Victim
from springline.persistence.engine.copier import BandwidthLimiter
from springline.persistence.model.dataset import CacheState, Dataset, Phase, Ref, Strategy, UnderStoreState
from springline.persistence.model.transitions import INITIAL_STATE, TRANSITIONS, Event, GenerationState
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.testing.lines import LinesRunner, digest_of, read_lines
from springline.testing.lines import make_dataset as make
from tests.support.actors import Actor
from tests.support.datasets.stages import stage
from tests.support.datasets.states import copies_in, expire_leases, measured
from tests.support.examples import examples

PATHS = ("a", "b")
WORKERS = ("worker 0", "worker 1")
MAINTENANCE = ("retire", "scan", "recover", "sweep")
WEIGHTS = {
    "go on": 14, "work": 6, "write": 1, "evict": 2, "read": 2, "keep up": 2, "lose": 2, "fall silent": 3, "die": 1,
}  # fmt: skip
KINDS = [kind for kind, weight in WEIGHTS.items() for _ in range(weight)]
# A worker that has recomputed a dataset after its lease expired finds it evicted again.
EVICTED_AFTER_ITS_LEASE = [
    ("go on", 0, 8), ("evict", 0, 12), ("work", 0, 11), ("evict", 0, 1), ("go on", 0, 11), ("go on", 0, 8),
    ("fall silent", 0, 5), ("go on", 11, 4), ("go on", 0, 5), ("write", 0, 9), ("go on", 0, 1), ("go on", 0, 2),
    ("work", 1, 1), ("lose", 0, 3), ("evict", 0, 10), ("evict", 0, 6), ("go on", 0, 4), ("keep up", 0, 11),
    ("go on", 0, 10), ("work", 3, 9), ("fall silent", 0, 8), ("evict", 0, 10), ("fall silent", 0, 9),
    ("lose", 0, 8), ("go on", 0, 10), ("write", 5, 10), ("lose", 0, 1), ("work", 0, 3), ("fall silent", 0, 9),
    ("fall silent", 0, 2), ("fall silent", 0, 12), ("write", 0, 11), ("keep up", 9, 2), ("go on", 11, 4),
    ("read", 7, 1), ("keep up", 0, 12), ("lose", 1, 7), ("evict", 0, 8), ("go on", 0, 7), ("fall silent", 0, 6),
    ("evict", 0, 4), ("go on", 1, 7), ("work", 3, 1), ("go on", 0, 1), ("fall silent", 0, 9),
    ("fall silent", 0, 5), ("go on", 0, 5), ("fall silent", 0, 7), ("go on", 10, 7), ("go on", 0, 9),
    ("go on", 1, 6), ("lose", 0, 8), ("go on", 0, 11), ("work", 0, 4), ("go on", 7, 4), ("work", 0, 7),
    ("go on", 0, 12), ("keep up", 7, 3), ("lose", 0, 4), ("go on", 0, 1), ("evict", 0, 3), ("work", 0, 4),
    ("die", 0, 4), ("go on", 5, 9), ("read", 0, 12), ("work", 0, 3), ("go on", 0, 8), ("evict", 0, 7),
    ("go on", 7, 2), ("keep up", 0, 1),
]  # fmt: skip
MOVES = st.tuples(st.sampled_from(KINDS), st.integers(0, 11), st.integers(1, 12))
_memory = Path("/dev/shm")


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A folder with a catalog that knows what takes how long, from which each example starts."""
    with tempfile.TemporaryDirectory(dir=_memory if _memory.is_dir() else None) as folder:
        platform = open_in(Path(folder), by_operation=False)
        measured(platform, "shout", run=0.001, send=10.0)
        platform.close()
        yield Path(folder)


def open_in(folder: Path, *, by_operation: bool, catalog_url: str = "") -> Platform:
    """One process's platform on the stores and the catalog in `folder`, or on another catalog."""
    platform_settings = {
        "home": folder / "home",
        "catalog_url": catalog_url,
        "cache_uri": f"file://{folder}/cache",
        "min_operation_bytes": 0 if by_operation else 1 << 30,
        "policy": "paper",  # looks at no clock, so that a schedule can be played again
        "retry_seconds": 0,
        "sync_timeout": 0,
        "lease_seconds": 1e6,  # no lease runs out by itself
    }
    runner = LinesRunner()
    runner.add("load", lambda sources, params: [f"{params['n']}-{i}" for i in range(20)], idempotent=False)
    runner.add("shout", lambda sources, params: [f"{line}!" for line in sources[0]])
    return open_platform(Settings(**platform_settings), runner=runner)  # type: ignore[arg-type]


class Simulation:
    """Several actors on one catalog and the same stores; a schedule says who does what, and how far."""

    def __init__(self, template: Path, *, by_operation: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=_memory if _memory.is_dir() else None))
        shutil.copytree(template / "home", self.folder / "home")
        self.platform = open_in(self.folder, by_operation=by_operation)
        # From now on nothing is measured, so that a schedule can be played again.
        self.platform.catalog.record_measurement = lambda *args, **how: None  # type: ignore[method-assign]
        # It gives way to nobody, and waits for nobody: a killed writer would be waited for for ever.
        self.platform.persister.sender.limiter = BandwidthLimiter()
        self.platform.claims.is_any_in_flight = lambda refs: False  # type: ignore[method-assign]
        stage(self.platform, self.pause)
        self.catalog = self.platform.catalog
        for kind in ("read_transaction", "write_transaction"):
            setattr(self.catalog, kind, partial(self.transaction, getattr(self.catalog, kind)))
        self.actors: dict[str, Actor] = {}
        self.ended: list[Actor] = []
        self.contents: dict[Ref, str] = {}
        self.lost_locations: set[str] = set()  # places in the cache whose bytes a fault took
        self.loads = 0
        self.states: dict[Ref, GenerationState] = {}
        self.copies: Counter[Ref] = Counter()
        self.checked_moments = 0

    def pause(self, point: str, location: str) -> None:
        """Whoever acts pauses here; what the test does itself goes on."""
        for actor in (*self.actors.values(), *self.ended):
            actor.pause(point, location)

    @contextmanager
    def transaction(self, begin: Callable[[], AbstractContextManager[Connection]]) -> Iterator[Connection]:
        """A transaction of the catalog, before which whoever acts pauses."""
        self.pause("transaction", "")
        with begin() as connection:
            yield connection

    # ---- what happens

    def move(self, kind: str, which: int, steps: int) -> None:
        """Let one thing happen."""
        path = PATHS[which % len(PATHS)]
        if kind == "write":
            self.write(path, sync=steps > 9)
        elif kind == "work":
            self.begin(WORKERS[which % len(WORKERS)], self.platform.persister.step, steps)
        elif kind == "evict":
            self.evict(path, steps)
        elif kind == "read":
            self.read(path, steps)
        elif kind == "keep up":
            self.keep_up(MAINTENANCE[which % len(MAINTENANCE)], steps)
        elif kind == "fall silent":
            expire_leases(self.platform)
        elif kind == "lose":
            self.lose(path)
        elif self.actors:
            name = sorted(self.actors)[which % len(self.actors)]
            if kind == "die":
                actor = self.actors.pop(name)
                actor.kill()
                self.ended.append(actor)
            else:
                self.go_on(self.actors[name], steps)

    def write(self, path: str, *, sync: bool = False) -> None:
        """A task makes a new generation: `a` is loaded, `b` is made of it."""
        strategy = Strategy.ASYNC_AND_SYNC if sync else Strategy.ASYNC_STORE
        self.loads += 1
        operation, sources = ("load", []) if path == "a" else ("shout", ["a"])
        params = {"n": str(self.loads)}
        dataset = make(self.platform, path, operation, sources, strategy=strategy, params=params)
        self.contents[dataset.ref] = dataset.digest

    def evict(self, path: str, steps: int) -> None:
        """An evictor tries the newest generation of a path in the cache, by the rule that may fit."""
        for dataset in self.catalog.find(path=path, phase=Phase.COMMITTED):
            if dataset.in_cache:
                rule = "persisted" if dataset.persisted else "alternate"
                victim = Victim(dataset.ref, dataset.bytes, rule, "")
                self.begin("evictor", partial(self.platform.replacement.evict, victim), steps)
                return

    def read(self, path: str, steps: int) -> None:
        """A reader opens the newest generation, and pauses while it is open."""

        def act() -> tuple[Ref, str]:
            with self.platform.store.read(path) as reading:
                self.actors["reader"].pause("reading", path)
                return reading.ref, digest_of(read_lines(reading.uri))

        if self.catalog.find(path=path, phase=Phase.COMMITTED):
            self.begin("reader", act, steps)

    def keep_up(self, what: str, steps: int) -> None:
        """One kind of maintenance."""
        platform = self.platform
        maintenance: dict[str, Callable[[], object]] = {
            "retire": platform.maintenance.retire,
            "scan": lambda: platform.maintenance.scan(deep=True),
            "recover": lambda: platform.restorer.restore([d.ref for d in platform.maintenance.find_lost()]),
            "sweep": platform.maintenance.sweep,
        }
        self.begin("maintenance", maintenance[what], steps)

    def lose(self, path: str) -> None:
        """A fault takes cached bytes that can be had again; the others are the matter of other tests."""
        for dataset in self.catalog.find(path=path, phase=Phase.COMMITTED):
            lineage = self.catalog.lineage_around([dataset.ref])
            is_being_read = dataset.ref in self.catalog.refs_being_read()
            if dataset.in_cache and not is_being_read and (dataset.persisted or lineage.is_recomputable(dataset.ref)):
                self.lost_locations.add(dataset.cache_location)
                self.platform.cache.delete(dataset.cache_location)

    def begin(self, name: str, act: Callable[[], object], steps: int) -> None:
        """Let somebody begin something, unless it is still busy."""
        if name in self.actors:
            return
        actor = self.actors[name] = Actor(name, act)
        self.go_on(actor, steps)

    def go_on(self, actor: Actor, steps: int) -> None:
        """Let an actor go on for some steps; nothing that it does may fail."""
        for _ in range(steps):
            if not actor.finished:
                actor.advance()
        if not actor.finished:
            return
        del self.actors[actor.name]
        self.ended.append(actor)
        if actor.error is not None:
            raise AssertionError(f"{actor.name} failed at {actor.at}") from actor.error
        if isinstance(actor.result, tuple):
            ref, digest = actor.result
            assert digest == self.contents[ref], f"{ref} was read wrong"

    # ---- what must hold

    def check(self) -> None:
        """States change by the table only, nothing is persisted twice or abandoned, what is named is there."""
        moments = self.catalog.history()
        for moment in moments[self.checked_moments :]:
            state = GenerationState(moment.phase, moment.cache, moment.under)
            if moment.event == "opened":
                assert state == INITIAL_STATE
            elif moment.event in set(Event):
                before = self.states[moment.ref]
                assert TRANSITIONS[Event(moment.event), before] == state, f"{before}, then {moment}"
            else:
                assert state == self.states[moment.ref]
            self.states[moment.ref] = state
            self.copies[moment.ref] += moment.event == Event.COPIED
            assert self.copies[moment.ref] <= 1, f"{moment.ref} was persisted twice"
            assert moment.event not in ("persist_abandoned", Event.UNDER_STORE_LOST), moment
        self.checked_moments = len(moments)
        for dataset in self.catalog.find():
            assert self.states[dataset.ref] == GenerationState(dataset.phase, dataset.cache, dataset.under)
            self.check_bytes_of(dataset)

    def check_bytes_of(self, dataset: Dataset) -> None:
        """What the catalog names is there and whole."""
        cache, under = self.platform.cache, self.platform.under
        if dataset.under is UnderStoreState.PRESENT:
            assert under.manifest(dataset.under_location).checksum == dataset.under_checksum
            assert digest_of(read_lines(under.uri(dataset.under_location))) == dataset.digest
        if dataset.cache is CacheState.LOST:
            assert dataset.cache_location in self.lost_locations, f"{dataset.ref} is called lost, but no fault took it"
        if dataset.cache is CacheState.PRESENT and dataset.cache_location not in self.lost_locations:
            assert cache.manifest(dataset.cache_location).checksum == dataset.checksum

    def check_the_end(self) -> None:
        """Once everyone who lives is done, one more worker persists all, and nothing half is left."""
        for name in sorted(self.actors):
            while name in self.actors:
                self.go_on(self.actors[name], 1)
        last = self.platform
        expire_leases(last)
        assert last.persister.drain().remaining == 0
        last.maintenance.reader_seconds = -10  # as if a long time had passed
        last.maintenance.sweep()
        self.check()
        datasets = self.catalog.find(phase=Phase.COMMITTED)
        assert all(dataset.persisted for dataset in datasets)
        assert copies_in(last.under) == sorted(dataset.under_location for dataset in datasets)
        assert set(copies_in(last.cache)) <= {d.cache_location for d in datasets if d.in_cache}

    def close(self) -> None:
        """End every thread, also of those who were killed, and remove the folder."""
        for actor in [*self.actors.values(), *self.ended]:
            if not actor.finished:
                actor.clear()
        self.platform.close()
        shutil.rmtree(self.folder)


@example(schedule=EVICTED_AFTER_ITS_LEASE, by_operation=False)
@given(schedule=st.lists(MOVES, min_size=30, max_size=80), by_operation=st.booleans())
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
def test_however_they_interleave_each_generation_is_persisted_once_and_nothing_half_is_left(
    template: Path, schedule: list[tuple[str, int, int]], by_operation: bool
) -> None:
    """Workers, zombies and dead ones, evictor, reader and maintenance, paused before any call on store or catalog."""
    simulation = Simulation(template, by_operation=by_operation)
    try:
        for path in PATHS:
            simulation.write(path)
        for kind, which, steps in schedule:
            simulation.move(kind, which, steps)
            simulation.check()
        simulation.check_the_end()
    finally:
        simulation.close()
