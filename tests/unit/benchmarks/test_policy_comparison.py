"""The simulation behind the comparison of policies: recordings, the persister's timing, what a fault costs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.datasets import policies
from benchmarks.datasets.policies import Scenario, _compare
from benchmarks.datasets.record import Recording, load, read, record, save
from benchmarks.datasets.simulation import Setup, loss_at, losses, not_recomputable, simulate
from benchmarks.datasets.synthetic import SHAPES, generate
from benchmarks.report import Goal, Report, keep, this_machine
from springline.baselines.policies import FifoPolicy
from springline.persistence.decisions.recovery import plan_recovery
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import CacheState, Dataset, Ref, UnderStoreState
from springline.persistence.model.lineage import Lineage
from tests.support.datasets.lineages import cached, evicted, lineage_of, ref


def as_lineage(recording: Recording, persisted_at: dict[Ref, float], moment: float) -> Lineage:
    """What the catalog would hold after the cache was lost at `moment`."""
    datasets = {}
    for dataset in recording.datasets:
        if dataset.committed_at <= moment:
            is_persisted = persisted_at.get(dataset.ref, 1e99) <= moment
            datasets[dataset.ref] = Dataset(
                dataset.ref, cache=CacheState.LOST, bytes=dataset.bytes, call=dataset.call, sources=dataset.sources,
                under=UnderStoreState.PRESENT if is_persisted else UnderStoreState.NONE,
                compute_seconds=dataset.seconds, persist_requested=dataset.persist_requested,
            )  # fmt: skip
    return Lineage(datasets, {(o.name, o.version): o for o in recording.operations})


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_fault_costs_is_what_recovery_would_plan(shape: str) -> None:
    """Two ways to the same seconds and bytes: the simulation's own, and the plan of `recovery.py`."""
    recording = read(generate(shape, 1, batches=4))
    trace = simulate(recording, FifoPolicy(), Setup(5e6, synchronous=False))
    for i in range(20):
        moment = trace.ended_at * i / 20
        lineage = as_lineage(recording, dict(trace.persisted_at), moment)
        read_later = {s for m in recording.datasets if m.committed_at > moment for s in m.sources}
        unpersisted = [(ref, dataset) for ref, dataset in lineage.datasets.items() if not dataset.persisted]
        requested = [ref for ref, dataset in unpersisted if dataset.persist_requested or ref in read_later]
        plan = plan_recovery(lineage, requested, CostModel())
        loss = loss_at(recording, trace.persisted_at, moment)
        assert loss.recompute_seconds == pytest.approx(plan.seconds)
        assert loss.irrecoverable_bytes == sum(lineage.datasets[r].bytes for r in plan.irrecoverable)


def test_one_persister_sends_one_after_the_other() -> None:
    """Each takes its bytes over the link's width, and waits for the one before it."""
    lineage = lineage_of(
        cached("a", by=None, bytes=1000, committed_at=10.0, compute_seconds=1.0),
        cached("b", by=None, bytes=3000, committed_at=10.5, compute_seconds=1.0),
    )
    trace = simulate(read(record(lineage)), FifoPolicy(), Setup(1000.0, synchronous=False))
    assert trace.persisted_at == pytest.approx({ref("a"): 1 + 1.05, ref("b"): 1 + 1.05 + 3.05})


def test_the_loss_at_many_moments_is_the_loss_at_each() -> None:
    """What is remembered between two changes is what would be computed from scratch."""
    recording = read(generate("rolling", 2, batches=4))
    trace = simulate(recording, FifoPolicy(), Setup(5e6))
    moments = [trace.ended_at * i / 30 for i in range(30)]
    assert losses(recording, trace, moments) == [loss_at(recording, trace.persisted_at, m) for m in moments]


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_irrecoverable_when_what_cannot_be_recomputed_is_written_synchronously(shape: str) -> None:
    """Async&Sync: at any moment all that can be lost can be recomputed."""
    recording = read(generate(shape, 3, batches=5))
    trace = simulate(recording, FifoPolicy(), Setup(3e6, synchronous=True))
    assert not_recomputable(recording)
    assert all(loss_at(recording, trace.persisted_at, trace.ended_at * i / 50).irrecoverable == 0 for i in range(50))


def test_the_same_scenario_has_the_same_outcome_again() -> None:
    """Seeded: a figure can be had again."""
    recording = read(generate("etl", 5, batches=3))
    scenario = Scenario("etl", "async_and_sync", "data or operation", 1.0, 5)
    assert list(_compare(recording, scenario)) == list(_compare(recording, scenario))


def test_operations_are_sent_where_that_is_quicker() -> None:
    """On a narrow link, once their sources are persisted."""
    recording = read(generate("branches", 1, batches=3))
    assert simulate(recording, FifoPolicy(), Setup(2e6, operations=True)).as_operations > 0
    assert simulate(recording, FifoPolicy(), Setup(2e6)).as_operations == 0


def test_a_catalog_is_recorded_with_times_from_its_first_operation_on(tmp_path: Path) -> None:
    """Sizes, sources, who reads whom, and when each was read; the file gives back the same."""
    lineage = lineage_of(
        cached("a", by="parse", committed_at=102.0, compute_seconds=2.0, reads=2, last_read_at=150.0),
        evicted("b", "a", by="clean", committed_at=110.0, compute_seconds=3.0, checkpoint=True),
        readers={"parse": ("clean",)},
        parse=replace(lineage_of().operations["op", "v1"], name="parse"),
        clean=replace(lineage_of().operations["dice", "v1"], name="clean"),
    )
    recorded = record(lineage, "a test")
    first, second = read(recorded).datasets
    assert (first.committed_at, first.started_at, first.read_at) == (2.0, 0.0, (7.0, 50.0))
    assert (second.sources, second.checkpoint) == ((ref("a"),), True)
    assert read(recorded).readers == {"parse": ("clean",)}
    save(recorded, tmp_path / "x.json")
    assert load(tmp_path / "x.json") == read(recorded)


def test_a_recording_out_of_order_is_refused_by_name() -> None:
    """A source must come before what was made of it."""
    recorded = generate("etl", 1, batches=1)
    recorded["datasets"].reverse()
    with pytest.raises(ValueError, match="is recorded before a source of it"):
        read(recorded)


def test_the_recording_that_is_shipped_can_be_read() -> None:
    """And holds several batches."""
    assert len(load(policies.RECORDED).datasets) >= 30


def test_a_report_is_kept_in_the_form_of_the_results(tmp_path: Path) -> None:
    """Name, time, machine, size, rows and goals."""
    report = Report("x", "quick", [{"a": 1}], [Goal("a small", 1, "<= 2", True)])
    result = json.loads(keep(report, tmp_path).read_text())
    assert result.keys() >= {"name", "when", "machine", "size", "rows", "goals"}
    assert result["goals"] == [{"goal": "a small", "measured": 1, "target": "<= 2", "met": True}]
    assert result["machine"].keys() == this_machine().keys()


@pytest.mark.parametrize(("met", "code"), [(True, 0), (False, 1)])
def test_the_command_prints_goals_last_and_fails_if_one_is_missed(
    met: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A line a goal, whatever the table holds."""
    report = Report("policies", "quick", [{"a": 1.5}], [Goal("a small", 1.5, "<= 2", met)])
    monkeypatch.setattr(policies, "run", lambda size: report)
    monkeypatch.setattr(command, "keep", lambda report, into: tmp_path)
    assert command.main(["policies"]) == code
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last == f"goal {'met' if met else 'MISSED'}: a small: 1.5 (target <= 2)"
