"""Brings back the states of units that were lost: from the newest version that is there or was persisted, by replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from springline.spark_jobs.streaming.errors import LogLostError, MissingStateError
from springline.spark_jobs.streaming.runtime.history import History, read_history
from springline.spark_jobs.streaming.runtime.message_log import Log, Order
from springline.spark_jobs.streaming.runtime.rounds import Plan, check_topics
from springline.spark_jobs.streaming.runtime.stage import COMMAND, Stage
from springline.spark_jobs.streaming.runtime.worker.unit import Units

Fetch = Callable[[Stage, int, Order], Order | None]
Saved = Callable[[Stage, int], Order | None]

_NONE: Order = (0, 0)  # before every round


@dataclass(frozen=True)
class Rebuilt:
    """A unit's state that was brought back: from which one on, and how many rounds were run again, if any."""

    stage: str
    unit: int
    base: Order
    rounds: int


def check_known(stage: Stage, units: int, log: Log, saved: Saved = lambda stage, unit: None) -> None:
    """Make sure that no state of a stage of so many units is newer than its newest planned round.

    A round is planned before anything of it runs. So a newer state, in its folder or as `saved` tells, is of another
    log: Kafka was emptied, or is another one. Its rounds would never be run, or be taken as done. Raises
    `LogLostError`.
    """
    orders = {unit: max(stage.versions(unit).newest() or _NONE, saved(stage, unit) or _NONE) for unit in range(units)}
    newest = max(orders.values(), default=_NONE)
    if newest <= _last(stage, log):
        return
    log.appender(stage.rounds, stage.rounds)  # what a driver before was still committing is there now
    if newest > (last := _last(stage, log)):
        unit = next(unit for unit, order in orders.items() if order == newest)
        ends = "is empty" if last == _NONE else f"ends with round {last[1]} of incarnation {last[0]}"
        raise LogLostError(
            f"{stage.rounds} {ends}, and there is a state after round {newest[1]} of incarnation {newest[0]}, of "
            f"{stage.topic}[{unit}]: Kafka was emptied, or it is another one than before; "
            f"`{COMMAND} reset {stage.job}` lets the job begin anew"
        )


def _last(stage: Stage, log: Log) -> Order:
    """The order of the newest planned round; (0, 0) if there is none."""
    last = read_history(stage, log).last
    return _NONE if last is None else last.order


def recover(stage: Stage, log: Log, fetch: Fetch) -> list[Rebuilt]:
    """Make sure that the state after the newest planned round is there in every unit.

    Unless its state is there, that round itself is run as ever, since nobody knows whether all that it sends has
    arrived. `fetch` puts the newest persisted version not after a round into the unit's folder, and returns its order,
    or None. Raises `MessagesLostError` where rounds would have to be run again whose messages are not in the log any
    more, `TopicReplacedError` where the log is another one by now, `MissingStateError` where their plans are not there.
    """
    history = read_history(stage, log)
    last = history.last
    if last is None:
        return []
    with stage.telling_what_helps():
        check_topics(last, log.ids(*stage.offsets_of))
    units = Units(stage, log)
    rebuilt = []
    for unit in sorted(last.ranges):
        versions = stage.versions(unit)
        if versions.whole(*last.order):
            continue
        lost = unit not in last.new and not versions.whole(*last.before)
        persisted = fetch(stage, unit, last.order)
        if persisted == last.order:
            rebuilt.append(Rebuilt(stage.id, unit, persisted, 0))
            continue
        if last.begins:
            raise _missing(stage, unit, last.order)
        if lost:
            rebuilt.append(_rebuild(units, history, unit, last.before, persisted))
        units.run(last, history.contents_of(last), unit)
    return rebuilt


def _rebuild(units: Units, history: History, unit: int, wanted: Order, persisted: Order | None) -> Rebuilt:
    """Bring back the state after the round `wanted`; what the rounds sent has arrived, since others followed."""
    missing: list[Plan] = []
    order = wanted
    versions = units.stage.versions(unit)
    while order != persisted and not versions.whole(*order):
        if order not in history.plans or history.plans[order].begins:
            raise _missing(units.stage, unit, order)
        missing.append(history.plans[order])
        order = missing[-1].before
        if unit in missing[-1].new:
            break
    for plan in reversed(missing):
        if unit in plan.ranges:
            units.replay(plan, history.contents_of(plan), unit)
    return Rebuilt(units.stage.id, unit, order, len(missing))


def _missing(stage: Stage, unit: int, order: Order) -> MissingStateError:
    return MissingStateError(
        f"{stage.id}, unit {unit}: neither the state after round {order[1]} is there nor the plan of that round"
    )
