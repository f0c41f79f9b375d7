"""The controller's decisions: from a table, what is under way and what units and routers tell, to the next epoch.

An epoch is written only when all routers have taken up the one before: then its orders are sure to be in a round. A
plan is carried out in this order: tuples are stored as wanted from the first epoch on; pieces are copied, a bounded
number of tuples at a time, while the giver goes on answering; once a copy exists, a later epoch switches to it. No key
or bucket is in two moves at a time, and nothing else is planned until all has moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.join.routing.heavy_key_history import Recollection
from springline.spark_jobs.streaming.join.routing.loads import Loads, Plan, Strategy
from springline.spark_jobs.streaming.join.routing.moves import Pending, cut
from springline.spark_jobs.streaming.join.routing.sketch import Sketch, merged
from springline.spark_jobs.streaming.join.routing.strategies import USUAL_STRATEGY, strategy_of
from springline.spark_jobs.streaming.join.routing.strategies.costs import PAPER_WEIGHTS, Costs
from springline.spark_jobs.streaming.join.routing.table import SIDES, Draft, Table
from springline.spark_jobs.streaming.join.wire import Orders, Piece, Side, Switch

_CUTS = 60  # in which tuples are let go that are older than those that are kept
_NEWS = 0.01  # of all tuples: after so many more a plan is looked for again


@dataclass(frozen=True)
class Control:
    """How a join is controlled: `units` wanted; `theta` borne; at most `piece` tuples a piece, `flight` under way.

    What is under way may all be copied by one unit in one round, so it is no more than some 10 to 50 MB. Below `least`
    tuples a unit nothing is known, and nothing is done. With `expiring`, stored tuples vanish after a while; so many of
    the newest, `keep_rows`, are kept at least.
    """

    units: int
    strategy: str = USUAL_STRATEGY
    theta: float = 0.05
    costs: Costs = PAPER_WEIGHTS[0]
    piece: int = 125_000
    flight: int = 500_000
    least: int = 1_000
    expiring: bool = False
    keep_rows: int | None = None

    @property
    def chosen(self) -> Strategy:
        """The strategy; raises `ExtensionError` and `InvalidRoutingError`."""
        return strategy_of(self.strategy, self.theta, self.costs)


@dataclass(frozen=True)
class Seen:
    """What was told last: the epoch that each router is in, and their sketches; tuples (those that are on their way to
    them too) and copies of units.

    `begun` are the sketches as they were when the routers' epochs began; `copied` has by a piece's id where its copy
    lies (offsets [start, to)) and how many tuples it has; `pairs` are the results of all units. All routers have ended
    `round`, and so many tuples `came` by then, or a few more.
    """

    epochs: Mapping[int, int]
    sketches: tuple[Sketch, Sketch]
    stored: Mapping[int, tuple[int, int]]
    copied: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)
    begun: tuple[Sketch, Sketch] | None = None
    pairs: int | None = None
    round: int = 0
    came: int = 0

    @staticmethod
    def of_gauges(
        routers: Mapping[int, Mapping[str, Any]],
        units: Mapping[int, Mapping[str, Any]],
        copied: Mapping[int, tuple[int, int, int]],
        pairs: int | None = None,
        number: int = 0,
    ) -> Seen:
        """From what reports tell, and where copies lie: of routers `epoch`, `sketch`, `begun`, and tuples `sent` to be
        stored; of units those that are `stored`, and how many have `arrived`: the rest is on its way. All routers have
        ended round `number`.
        """

        def sketches(name: str) -> tuple[Sketch, Sketch]:
            left, right = (
                merged(Sketch.from_json(told[name][side]) for _, told in sorted(routers.items())) for side in SIDES
            )
            return left, right

        def stored(unit: int, side: Side) -> int:
            name = side.name.lower()
            sent = sum(told["sent"][side][unit] for told in routers.values())
            return int(units[unit]["stored"][name] + max(sent - units[unit]["arrived"][name], 0))

        return Seen(
            {router: told["epoch"] for router, told in routers.items()},
            sketches("sketch"),
            {unit: (stored(unit, Side.LEFT), stored(unit, Side.RIGHT)) for unit in units},
            copied,
            sketches("begun"),
            pairs,
            number,
            sum(sum(map(sum, told["sent"])) for told in routers.values()),
        )


@dataclass(frozen=True)
class Course:
    """What the controller remembers: the table in force, copies that were ordered, pieces that wait, parts of keys.

    `earlier` is the table before it, while tuples that went by that are not accounted for yet. `planned` is how many
    tuples there were when a plan was looked for and none was found. Tuples of router rounds before `since` are let go;
    `marks` are rounds, by whose end so many tuples had come.
    """

    table: Table
    copying: tuple[Pending, ...] = ()
    waiting: tuple[Pending, ...] = ()
    recollection: Recollection = field(default_factory=Recollection)
    next_id: int = 1
    earlier: Table | None = None
    planned: int = 0
    since: int = 0
    marks: tuple[tuple[int, int], ...] = ()

    def encode(self) -> bytes:
        """For a file; the table in it is packed as rounds name it."""
        earlier = None if self.earlier is None else self.earlier.as_json()
        return _COURSES.encode(
            _Course(
                self.table.as_json(), self.copying, self.waiting, self.recollection, self.next_id, earlier,
                self.planned, self.since, self.marks,
            )
        )  # fmt: skip

    @staticmethod
    def decode(content: bytes, where: str) -> Course:
        """The inverse of `encode`; `where` is the file. Raises `DecodeError`."""
        told = _COURSES.decode(content, where)
        earlier = None if told.earlier is None else Table.from_json(told.earlier)
        return Course(
            Table.from_json(told.table), told.copying, told.waiting, told.recollection, told.next_id, earlier,
            told.planned, told.since, told.marks,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Course:
    """A course as it lies in its file."""

    table: dict[str, Any]
    copying: tuple[Pending, ...]
    waiting: tuple[Pending, ...]
    recollection: Recollection
    next_id: int
    earlier: dict[str, Any] | None
    planned: int
    since: int
    marks: tuple[tuple[int, int], ...]


_COURSES: Codec[_Course] = Codec(_Course, 1, "the course of a join", "reset the job, which then begins anew")


@dataclass(frozen=True)
class Decision:
    """How to go on, and why; `table` is the next epoch's, or nothing."""

    course: Course
    reasons: tuple[str, ...]
    table: Table | None = None


def begun(control: Control, room: int, block: int = 0) -> Course:
    """Before the first tuple."""
    return Course(control.chosen.first(room, control.units, block))


def decide(course: Course, seen: Seen, control: Control, routers: int) -> Decision:
    """What to do now, with so many router units."""
    table = course.table
    late = sorted(unit for unit in range(routers) if seen.epochs.get(unit, 0) < table.epoch)
    if late:
        return Decision(course, (f"epoch {table.epoch} is not in force at routers {late} yet",))
    course = _learnt(course, seen)
    course, switches = _switched(course, seen)
    reasons = [f"piece {one.piece.id} is copied: switch to it" for one in switches]
    if not (course.copying or course.waiting or switches):
        course, planned = _planned(course, loads_of(course, seen, control), control)
        reasons += planned
    course, copies = _ordered(course, control, switches)
    reasons += [f"copy piece {one.piece.id}: {one.words}" for one in copies]
    before, course = course.since, _aged(course, seen, control)
    if older := course.since > before:
        reasons.append(f"rows of router rounds before {course.since} are let go: {control.keep_rows:,} are kept")
    if course.table == table and not switches and not copies and not older:
        under_way = len(course.copying) + len(course.waiting)
        words = f"{under_way} pieces are under way" if under_way else "nothing to do: within the bound"
        return Decision(course, (*reasons, words))
    orders = Orders(
        table.epoch + 1,
        tuple(one.piece for one in copies),
        tuple(Switch(one.piece, *seen.copied[one.piece.id][:2]) for one in switches),
        course.since,
    )
    after = replace(course.table, epoch=table.epoch + 1, orders=orders)
    return Decision(replace(course, table=after, earlier=table), tuple(reasons), after)


def _learnt(course: Course, seen: Seen) -> Course:
    """With the tuples that came since: those before the epoch in force went by the table before."""
    known = course.recollection
    if course.earlier is not None and seen.begun is not None:
        known = known.learnt(course.earlier, seen.begun)
    return replace(course, recollection=known.learnt(course.table, seen.sketches), earlier=None)


def loads_of(course: Course, seen: Seen, control: Control) -> Loads:
    """What strategies are told.

    Heavy keys are counted over all that came: where tuples vanish, they are taken to be the same share of what is left.
    """
    heavy = course.recollection.heavy(seen.sketches)
    if control.expiring:
        stored = [sum(own[side] for own in seen.stored.values()) for side in SIDES]
        left = [min(stored[side] / max(seen.sketches[side].total, 1), 1.0) for side in SIDES]
        heavy = [one.lessened(left[one.side], left[one.side.other]) for one in heavy]
    return Loads(seen.stored, heavy, seen.pairs)


def _switched(course: Course, seen: Seen) -> tuple[Course, list[Pending]]:
    """Holders and parts after the switch to all copies that exist."""
    done = [one for one in course.copying if one.piece.id in seen.copied]
    if not done:
        return course, []
    draft, recollection = Draft(course.table), course.recollection
    left = [one for one in (*course.copying, *course.waiting) if one not in done]
    for number, one in enumerate(done):
        rest = [*left, *done[number + 1 :]]
        last = one.whole and not any(one.group == other.group and one.subjects & other.subjects for other in rest)
        gone = [one.piece.giver] if last else []
        for side, subject, bucket in one.places():
            places: Any = draft.buckets[side] if bucket else draft.entries[side]
            places[subject] = places[subject].holding([one.piece.receiver], gone)
        recollection = recollection.moved(one, seen.copied[one.piece.id][2], course.table, last=last)
    copying = tuple(one for one in course.copying if one not in done)
    return replace(course, table=draft.table(), copying=copying, recollection=recollection), done


def _planned(course: Course, loads: Loads, control: Control) -> tuple[Course, list[str]]:
    """The next plan's table and pieces, once nothing is under way."""
    draft = Draft(course.table)
    reasons = [f"{cleared} entries cleared: their keys are at home"] if (cleared := draft.tidy()) else []
    course = replace(course, table=draft.table()) if cleared else course
    plan = next_plan(course, loads, control)
    if plan is None:
        return replace(course, planned=course.planned if _rests(course, loads, control) else loads.total), reasons
    pieces = cut(plan.moves, course.next_id, control.piece)
    return (
        replace(course, table=plan.table, waiting=tuple(pieces), next_id=course.next_id + len(pieces), planned=0),
        [*reasons, *plan.reasons],
    )


def _aged(course: Course, seen: Seen, control: Control) -> Course:
    """With the rounds let go that only hold tuples older than those that are kept; a 60th of those at a time."""
    if control.keep_rows is None:
        return course
    marks = course.marks
    if not marks or seen.came - marks[-1][1] >= max(control.keep_rows // _CUTS, 1):
        marks = (*marks, (seen.round, seen.came))
    old = [mark for mark in marks if mark[1] <= seen.came - control.keep_rows]
    since = max([course.since, *(number + 1 for number, _ in old)])
    return replace(course, since=since, marks=marks[len(old) :])


def next_plan(course: Course, loads: Loads, control: Control) -> Plan | None:
    """What the strategy would do now; a change of the units is never put off."""
    return None if _rests(course, loads, control) else control.chosen.plan(course.table, loads, control.units)


def _rests(course: Course, loads: Loads, control: Control) -> bool:
    """Whether no plan is looked for: too little is known, or hardly more than when there was none."""
    if control.units != len(course.table.units):
        return False
    return loads.total < control.least * control.units or abs(loads.total - course.planned) < _NEWS * loads.total


def _ordered(course: Course, control: Control, switches: list[Pending]) -> tuple[Course, list[Pending]]:
    """The pieces to be copied now: in their order, none of what is under way or waits before it, as many as may be."""
    busy = {subject: one.group for one in (*course.copying, *switches) for subject in one.subjects}
    flying = sum(one.tuples for one in course.copying)
    copies, waiting = [], []
    for one in course.waiting:
        free = all(busy.get(subject, one.group) == one.group for subject in one.subjects)
        if free and (not flying or flying + one.tuples <= control.flight):
            copies.append(replace(one, piece=_without_entries(one.piece, course.table)))
            flying += one.tuples
        else:
            waiting.append(one)
        for subject in one.subjects:
            busy.setdefault(subject, one.group)
    return replace(course, copying=(*course.copying, *copies), waiting=tuple(waiting)), copies


def _without_entries(piece: Piece, table: Table) -> Piece:
    if not piece.buckets:
        return piece
    own = table.entries_in[piece.side]
    return replace(
        piece, block=table.block, without=tuple(key for bucket in piece.buckets for key in own.get(bucket, ()))
    )
