"""The trial that every side of a contest goes through, with a side that keeps its outputs in a dictionary."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest

from benchmarks.datasets.contest import Recipe, Strike, Trial, irrecoverable, recipes_of
from springline.persistence.errors import OperationError
from springline.spark_jobs.operations import load_operations

RECIPES = {"load": Recipe(False, ()), "parse": Recipe(True, ("load",)), "count": Recipe(True, ("parse",))}


class Memory:
    """A side that persists `persisted` and nothing else; the strike comes while `slow` is made."""

    name = "memory"
    persists = False

    def __init__(self, *, persisted: Collection[str] = (), slow: str = "", failing: str = "") -> None:
        self.executed: list[str] = []
        self.reached = threading.Event()
        self.struck = threading.Event()
        self.there: set[str] = set()
        self.persisted = persisted
        self.slow = slow
        self.failing = failing

    def make(self, operation: str) -> str:
        if operation == self.slow and not self.struck.is_set():
            self.reached.set()
            assert self.struck.wait(10)
            raise OperationError(f"{operation}: the worker died")
        if operation == self.failing:
            raise OperationError(f"{operation}: it never works")
        self.executed.append(operation)
        self.there.add(operation)
        return operation

    def waiting(self) -> Mapping[str, int]:
        return {name: 1 for name in self.there if name not in self.persisted}

    def lost(self) -> Collection[str]:
        return set(self.executed) - self.there

    def bring_back(self, lost: Sequence[str]) -> Collection[str]:
        for name in lost:
            self.make(name)
        return ()

    def kill(self) -> None:
        self.there &= set(self.persisted)
        self.struck.set()


def struck(side: Memory, start: Callable[[], None] = lambda: None) -> Strike:
    return Strike(0.0, side.kill, start, pause=lambda seconds: not side.reached.wait(10))


def test_what_has_its_sources_can_be_recomputed_and_nothing_else() -> None:
    """With `load` persisted, everything else is only work; with `parse` persisted, `count` does not miss `load`."""
    assert irrecoverable({"load", "parse", "count"}, RECIPES) == ["load", "parse", "count"]
    assert irrecoverable({"parse", "count"}, RECIPES) == []
    assert irrecoverable({"load", "count"}, RECIPES) == ["load"]


def test_the_workload_itself_has_two_outputs_that_cannot_be_recomputed() -> None:
    """`load` reads what may be gone tomorrow and `rotate` is random; all the others follow from their sources."""
    recipes = recipes_of(load_operations(("benchmarks.datasets.workload",)))
    assert [name for name, recipe in recipes.items() if not recipe.idempotent] == ["bench.load", "bench.rotate"]
    assert recipes["bench.rotate"].sources == ("bench.derive",)


def test_what_a_strike_destroyed_is_recomputed_in_order_and_the_run_ends() -> None:
    """The operation under way fails; what was lost comes back first, each once, then it is tried again."""
    side = Memory(persisted=("load",), slow="count")
    outcome = Trial(side, RECIPES, struck(side)).run()
    assert side.executed == ["load", "parse", "parse", "count"]
    assert (outcome.lost, outcome.lost_for_good, outcome.finished) == (["parse"], [], 2)


def test_irrecoverable_datasets_are_counted_and_recomputed_nevertheless() -> None:
    """Without it no run would end, and there would be no recovery to compare."""
    side = Memory(slow="count")
    outcome = Trial(side, RECIPES, struck(side)).run()
    assert side.executed == ["load", "parse", "load", "parse", "count"]
    assert outcome.lost_for_good == ["load", "parse"]
    assert side.there == set(RECIPES)


def test_a_failure_that_no_strike_explains_ends_the_trial_at_once() -> None:
    """A benchmark that tries again what fails by itself would measure something else."""
    side = Memory(failing="parse")
    with pytest.raises(OperationError, match="never works"):
        Trial(side, RECIPES).run()
    assert side.executed == ["load"]


def test_a_worker_that_cannot_be_started_again_ends_the_trial() -> None:
    """The run does not go on for ever without a cache."""
    side = Memory(slow="count")

    def start() -> None:
        raise OSError("no port")

    with pytest.raises(RuntimeError, match="could not be killed and started again"):
        Trial(side, RECIPES, struck(side, start)).run()
