"""The command line of tracking: what is in flight, what failed and is sent again, what is through, and ackers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated

import typer
from rich.table import Table

from springline.persistence.commands.arguments import NOT_SO
from springline.persistence.text.formatting import say_bytes
from springline.persistence.text.tables import plain_table
from springline.persistence.text.terminal import print, print_json, print_result, progress
from springline.spark_jobs.streaming.application.status import Seen, look
from springline.spark_jobs.streaming.commands.arguments import JobName, Json, Watch, opened_log
from springline.spark_jobs.streaming.commands.live import show_live
from springline.spark_jobs.streaming.commands.tables import as_it_stands, print_rows
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import TrackedJob, tracked_job_of, tracked_jobs
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.tracking.completeness import completeness_of
from springline.spark_jobs.streaming.tracking.replay.failures import newest_failures
from springline.spark_jobs.streaming.tracking.replay.manual_replay import resent, send_again
from springline.spark_jobs.streaming.tracking.ring import Epochs
from springline.spark_jobs.streaming.tracking.ring_file import change_ring, ring_of

_LOOK_SECONDS = 0.25
AckerNumber = Annotated[int, typer.Argument(min=0, help="The acker's number, from 0")]


def list_tracked(watch: Watch = False, as_json: Json = False) -> None:
    """List what is in flight, completed and failed in every tracked job."""
    settings = StreamSettings()
    if as_json:
        print_json([{"job": seen.job, "state": seen.state, **seen.tracking} for seen in _seen(settings)])
        return
    show_live(lambda: _table(_seen(settings), settings), watch)


def dead_letters(
    job: JobName,
    last: Annotated[int, typer.Option("-n", min=1, help="So many, the newest last")] = 10,
    as_json: Json = False,
) -> None:
    """Show the records that were given up: where they are in the source, why, and what they hold."""
    declared, folder = _named(job)
    with opened_log() as log:
        found = newest_failures(log, declared.dead, last)
    sent = resent(folder)
    if as_json:
        rows = [{**failure.as_json(), "sent_again": sent.get(failure.letter)} for failure in found]
        print_json(rows)
        return
    if found:
        names = ("letter", "partition", "offset", "when", "why", "sent again", "content")
        print_rows(
            names,
            (
                (
                    one.letter, one.partition, one.offset, _when(one.at), one.reason,
                    _when(sent[one.letter]) if one.letter in sent else "", one.as_json()["content"][:200],
                )
                for one in found
            ),
        )  # fmt: skip
    elif not declared.tracked.foreign:
        print(f"{job}: no record was given up")
    if declared.tracked.foreign:
        print(f"{job}: roots that failed are told in {declared.results}; here are messages that could not be read")


def retry(
    job: JobName,
    letters: Annotated[list[str], typer.Argument(help="As `dead-letters` names them: UNIT:OFFSET")],
    as_json: Json = False,
) -> None:
    """Send records that failed again, as new ones at the end of the topic; each is sent once."""
    declared, folder = _named(job)
    rows = []
    with opened_log() as log:
        for letter in letters:
            sent = send_again(log, declared, folder, letter, time.time())
            rows.append({"letter": letter, "partition": sent.partition, "offset": sent.offset, "topic": declared.topic})
            if not as_json:
                print(f"{job}: partition {sent.partition}, offset {sent.offset} is sent again to {declared.topic}")
    if as_json:
        print_json(rows)


def wait(
    job: JobName,
    to: Annotated[
        list[str] | None, typer.Option(help="PARTITION:OFFSET, may be repeated; none: all that is there now")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until it is so")] = 0.0,
    as_json: Json = False,
) -> None:
    """Wait until all records before some offsets are through, at most the time-out; exit status 3: they are not."""
    declared, folder = _named(job)
    if declared.tracked.foreign:
        raise StreamError(f"{job}: its roots are named by others, so no offsets tell which are through")
    wanted = dict(_place(text) for text in to or ())
    if not wanted:
        with opened_log() as log:
            wanted = {unit: extent.high for unit, extent in log.extents(declared.topic).items()}
    until = time.monotonic() + timeout
    with progress(f"waiting for {job}", quiet=as_json) as say:
        while not (found := completeness_of(folder, wanted)).through and time.monotonic() < until:
            say(f"waiting for {job}: not through are {found.say()}")
            time.sleep(_LOOK_SECONDS)
    sentence = f"{job}: {found.say() if found.through else f'not through: {found.say()}'}"
    print_result(as_json, {"job": job, "through": found.through, "missing": found.missing}, sentence)
    if not found.through:
        raise typer.Exit(NOT_SO)


def list_ackers(job: JobName, as_json: Json = False) -> None:
    """Show the ring: which ackers hold records, and how many."""
    declared, folder = _named(job)
    epochs = ring_of(folder, declared.tracked)
    told = {each["acker"]: each for each in _look(job, folder).tracking.get("ackers", ())}
    if as_json:
        print_json([_acker_fields(epochs, acker, told.get(acker)) for acker in range(epochs.room)])
        return
    print_rows(
        ("acker", "in the ring", "in flight", "completed"),
        (
            (acker, "yes" if acker in epochs.circle.ackers else "", *_of_acker(told.get(acker)))
            for acker in range(epochs.room)
        ),
    )
    print(f"epoch {epochs.number} of the ring; room for ackers 0 to {epochs.room - 1}")


def add(job: JobName, acker: AckerNumber, as_json: Json = False) -> None:
    """Add an acker to the ring, while the job runs or not."""
    _change(job, lambda epochs: epochs.with_acker(acker), as_json)


def remove(job: JobName, acker: AckerNumber, as_json: Json = False) -> None:
    """Take an acker out of the ring, while the job runs or not; it hands over what it holds."""
    _change(job, lambda epochs: epochs.without_acker(acker), as_json)


def _acker_fields(epochs: Epochs, acker: int, counts: Mapping[str, int] | None) -> dict[str, object]:
    return {**(counts or {}), "acker": acker, "in_ring": acker in epochs.circle.ackers, "epoch": epochs.number}


def _change(job: str, change: Callable[[Epochs], Epochs], as_json: bool) -> None:
    declared, folder = _named(job)
    changed = change_ring(folder, declared.tracked, change)
    ackers = list(changed.circle.ackers)
    sentence = f"{job}: epoch {changed.number} of the ring: ackers {', '.join(map(str, ackers))}"
    print_result(as_json, {"job": job, "epoch": changed.number, "ackers": ackers}, sentence)


def _named(job: str) -> tuple[TrackedJob, JobFolder]:
    settings = StreamSettings()
    return tracked_job_of(settings.declarations, job), settings.folder(job)


def _look(job: str, folder: JobFolder) -> Seen:
    return look(job, folder, time.time())


def _seen(settings: StreamSettings) -> list[Seen]:
    return [_look(name, settings.folder(name)) for name in tracked_jobs(settings.declarations)]


def _table(jobs: list[Seen], settings: StreamSettings) -> Table:
    table = plain_table("job", "state")
    for name in ("in flight", "completed", "sent again", "given up", "p50", "p99", "memory"):
        table.add_column(name, justify="right")
    table.add_column("first unfinished")
    for seen in jobs:
        told = seen.tracking
        if not told:
            table.add_row(seen.job, seen.state)
            continue
        numbers = (f"{told[name]:,}" for name in ("in_flight", "completed", "again", "gone"))
        marks = ", ".join(f"{partition}:{offset:,}" for partition, offset in told["lows"].items())
        spans = (_seconds(told["seconds"][share]) for share in ("p50", "p99"))
        table.add_row(seen.job, seen.state, *numbers, *spans, say_bytes(told["bytes"]), marks)
        if why := _waits(told["waits"], told["still"]):
            table.add_row("", as_it_stands(why, style="yellow"))
    table.caption_justify = "left"
    if not jobs:
        table.caption = f"no tracked jobs are declared in {settings.declarations}"
    return table


def _waits(full: bool, still: str) -> str:
    found = ["the source waits: as many roots are in flight as there may be"] if full else []
    return "; ".join([*found, *([f"time-outs stand still: {still}"] if still else [])])


def _of_acker(told: dict[str, int] | None) -> tuple[str, str]:
    return ("", "") if told is None else (f"{told['in_flight']:,}", f"{told['completed']:,}")


def _seconds(span: float | None) -> str:
    if span is None:
        return ""
    return f"{span * 1000:,.0f} ms" if span < 1 else f"{span:,.1f} s"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _place(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition(":")
    if not partition.isdigit() or not offset.isdigit():
        raise StreamError(f"{text!r}: write PARTITION:OFFSET, as 0:1200")
    return int(partition), int(offset)
