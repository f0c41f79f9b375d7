"""The persister and maintenance tasks on a real catalog and real folders, and the trigger between batches."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext

import pytest
from airflow.sdk.exceptions import TaskDeferred

from springline.airflow.operators.persister import MaintenanceOperator, PersisterOperator
from springline.airflow.platform_context import Queue
from springline.airflow.triggers.queue import QueueTrigger
from springline.persistence.decisions.proof import ProofThresholds
from springline.persistence.engine.attempt import Attempt
from springline.persistence.errors import AlertRulesError, IrrecoverableError, StorageUnavailableError
from springline.persistence.model.dataset import CacheState, Idempotence, Strategy, TransferMethod
from springline.testing.lines import make_dataset as make
from tests.support.airflow.triggers import first_payload
from tests.support.datasets.states import wipe_cache
from tests.support.datasets.tables import numbers, read_by_others, write_parquet


def persister_on(platform, **changes):
    """The persister task on this platform; it does not linger."""
    platform.persister.sleep = lambda seconds: None
    settings = {"linger": 0.05, **changes}
    calm = {"niceness": os.getpriority(os.PRIO_PROCESS, 0), **settings}  # the tests share this process
    return PersisterOperator(task_id="persist", open_platform=lambda actor: nullcontext(platform), **calm)


def test_one_start_persists_all_that_waits_then_defers(platform):
    """A batch of work is one task start; the process ends while there is nothing to do."""
    for name in "abc":
        make(platform, name, "load")
    with pytest.raises(TaskDeferred) as deferred:
        persister_on(platform).execute({})
    assert platform.claims.depth() == 0
    assert isinstance(deferred.value.trigger, QueueTrigger)
    assert deferred.value.kwargs["so_far"] == 3


def test_what_is_persisted_goes_into_its_table(open_at, tmp_path):
    """By the same task; the trigger fires for what is persisted and not in its table."""
    uri = f"delta:{tmp_path}/lake/clean"
    platform = open_at(tables={"etl/{ds}/clean": uri})
    write_parquet(platform, "etl/d1/clean", numbers(1, 2))
    assert first_payload(QueueTrigger(until=time.time() + 60, poll=0.01, settle=0, open_queue=lambda: Queue(platform)))[
        "reason"
    ] == ("a dataset can be persisted, or put into a table")
    write_parquet(platform, "etl/d2/clean", numbers(3), strategy=Strategy.ASYNC_STORE)
    with pytest.raises(TaskDeferred):
        persister_on(platform).execute({})
    assert read_by_others(uri) == {(1, "d1"): 1, (2, "d1"): 1, (3, "d2"): 1}
    assert not Queue(platform).read_status().claimable


def test_a_persister_whose_time_is_up_ends(platform):
    """It says how much it did over all of its starts; a continuous schedule begins the next."""
    make(platform, "a", "load")
    operator = persister_on(platform)
    event = {"reason": "the maximum wait has passed", "depth": 0}
    result = operator.resume({}, event=event, until=time.time() - 1, so_far=5)
    assert result == {"persisted": 5, "remaining": 1}


def test_a_persister_that_lingers_proves_operations(platform):
    """What is persisted first; what an operation made is believed once a second run gave the same."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    make(platform, "b", "shout", ["a"])
    platform.prover.thresholds, platform.prover.poll_seconds = ProofThresholds(0, 0.0), 0.0
    platform.prover.quiet_seconds = 0.0
    platform.persister.small_bytes = 10**9
    with pytest.raises(TaskDeferred) as deferred:
        persister_on(platform).execute({})
    assert deferred.value.kwargs["so_far"] == 1
    (operation,) = [each for each in platform.catalog.operations() if each.name == "shout"]
    assert operation.idempotence is Idempotence.PROVEN


def test_a_transfer_that_fails_does_not_end_the_task(platform, monkeypatch):
    """It stays in the queue for a later try."""
    make(platform, "a", "load")

    def refuse(*_):
        raise StorageUnavailableError("the under-store is away")

    monkeypatch.setattr(Attempt, "send_data", refuse)
    with pytest.raises(TaskDeferred):
        persister_on(platform).execute({})
    assert platform.claims.depth() == 1


def test_the_trigger_fires_when_something_can_be_persisted(open_at):
    """It survives a round trip through its serialised form."""
    platform = open_at()
    make(platform, "a", "load")
    kind, kwargs = QueueTrigger(until=time.time() + 60, poll=0.01, settle=0).serialize()
    assert kind == "springline.airflow.triggers.queue.QueueTrigger"
    payload = first_payload(QueueTrigger(**kwargs, open_queue=lambda: Queue(open_at())))
    assert payload == {"depth": 1, "reason": "a dataset can be persisted, or put into a table"}


def test_the_trigger_fires_when_a_claim_stands_still(open_at):
    """A worker that died holds its claim until a persister takes it back; before, an empty queue fires nothing."""
    trigger = QueueTrigger(until=time.time() + 0.2, poll=0.01, settle=0, open_queue=lambda: Queue(open_at()))
    assert first_payload(trigger)["reason"] == "the maximum wait has passed"
    platform = open_at()
    dataset = make(platform, "a", "load")
    platform.claims.claim(dataset.ref, "a worker that dies", TransferMethod.DATA, None)
    times = {"until": time.time() + 60, "poll": 0.01, "settle": 0, "overdue": 0.05}
    assert "no progress" in first_payload(QueueTrigger(**times, open_queue=lambda: Queue(open_at())))["reason"]


def maintain(platform, action):
    """Run a maintenance task on this platform."""
    return MaintenanceOperator(
        task_id=action, action=action, open_platform=lambda actor: nullcontext(platform)
    ).execute({})


def test_recover_brings_back_what_a_fault_took(platform):
    """What is persisted and what is idempotent comes back; a load that was not persisted fails the task by its name."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    derived_dataset = make(platform, "b", "shout", ["a"])
    wipe_cache(platform)
    report = maintain(platform, "recover")
    assert "b@1" in report["lost"]
    assert platform.catalog.get(derived_dataset.ref).cache is CacheState.PRESENT
    make(platform, "c", "load")
    wipe_cache(platform)
    with pytest.raises(IrrecoverableError, match="c@1"):
        maintain(platform, "recover")


def test_evict_keeps_a_tenth_of_the_cache_free(open_at):
    """Persisted datasets go until there is room."""
    platform = open_at(cache_capacity=3000)
    for name in "abc":
        make(platform, name, "load", strategy=Strategy.CACHE_THROUGH)
    used = platform.catalog.cache_used()
    report = maintain(platform, "evict")
    assert 0 < platform.catalog.cache_used() == used - report["freed"] <= 2700


def test_retire_removes_superseded_generations(platform):
    """The older generation's bytes go, the newer one stays."""
    first = make(platform, "a", lines=["old"])
    make(platform, "a", lines=["new"])
    assert maintain(platform, "retire") == {"retired": [str(first.ref)], "abandoned": []}


def test_the_risk_is_recorded_by_maintenance_and_while_something_is_persisted(platform, monkeypatch):
    """As it was before the transfer, and after the maintenance; the next minute's sample has the difference."""
    dataset = make(platform, "a", "load")
    monkeypatch.setattr(platform.catalog, "now", lambda: 600.0)
    with pytest.raises(TaskDeferred):
        persister_on(platform).execute({})
    monkeypatch.setattr(platform.catalog, "now", lambda: 660.0)
    maintain(platform, "retire")
    samples = [(sample.timestamp, sample.bytes) for sample in platform.catalog.risk_since()]
    assert samples == [(600.0, dataset.bytes), (660.0, 0)]


# ---- alerts


RULES = """
[risk]
metric = "persistence.risk.bytes"
above = 0
severity = "critical"
summary = "something is at risk"
"""


def test_the_maintenance_dag_sends_each_alert_once(platform, tmp_path, monkeypatch):
    """Its beginning, and its end."""
    (tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.setenv("SPRINGLINE_ALERT_RULES", str(tmp_path / "rules.toml"))
    make(platform, "a", "load")
    begins, stands = (maintain(platform, "alert") for _ in range(2))
    platform.persister.drain()
    ends = maintain(platform, "alert")
    assert (begins["new_alerts"], stands["new_alerts"], stands["active_alerts"]) == (["risk"], [], ["risk"])
    assert (ends["resolved_alerts"], ends["active_alerts"]) == (["risk"], [])


def test_wrong_rules_fail_the_task_with_file_and_rule(platform, tmp_path, monkeypatch):
    """No warning would be sent."""
    (tmp_path / "rules.toml").write_text(RULES.replace("above", "over"))
    monkeypatch.setenv("SPRINGLINE_ALERT_RULES", str(tmp_path / "rules.toml"))
    with pytest.raises(AlertRulesError, match=r"rules.toml: rule 'risk': .*unknown key over"):
        maintain(platform, "alert")
