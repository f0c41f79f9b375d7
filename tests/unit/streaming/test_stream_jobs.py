"""What can be declared of a job, and the errors of wrong declarations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from springline.persistence.profile import project_folder
from springline.spark_jobs.streaming.errors import InvalidJobError, UnknownJobError, UnknownStepError
from springline.spark_jobs.streaming.job import topics_of_stages
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_job, read_jobs
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.runtime.stage import Stage, StageSpec, place_stages
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.sources.errors import InvalidStreamError
from springline.spark_jobs.streaming.spark.stage_launch import StageLaunch
from springline.spark_jobs.streaming.windows.errors import QueryExistsError
from springline.spark_jobs.streaming.windows.queryable import queryable_job_of
from springline.spark_jobs.streaming.windows.registry_file import change_registry, read_registry
from tests.support.streams.declarations import written

STREAM = '[a.stream]\ntime = "t"\nfields = [["t", "timestamp(s)"], ["k", "text"]]\n'

WORD_COUNT = '[words]\nkind = "wordcount"\ntopic = "lines"\n'
TRACKED = f"{WORD_COUNT}[words.tracking]\n"
TRACKER = '[orders]\nkind = "tracker"\n'
WINDOWS = "springline.spark_jobs.streaming.windows"


def test_the_jobs_of_the_checkout_can_be_read() -> None:
    """Their queries too."""
    jobs = read_jobs(project_folder() / "streams.toml")
    assert {"flights", "words"} <= set(jobs)
    assert queryable_job_of(project_folder() / "streams.toml", "flights").registry().queries()


def test_no_file_declares_no_job(tmp_path: Path) -> None:
    """And asking for one says where it would be declared."""
    assert read_jobs(tmp_path / "none.toml") == {}
    with pytest.raises(UnknownJobError, match=r"no job 'a'.*none\.toml"):
        read_job(tmp_path / "none.toml", "a")


def test_of_many_jobs_those_that_may_have_been_meant_are_named(tmp_path: Path) -> None:
    """With how many there are; few are all named."""
    names = ["flights", "flows", *(f"job{number}" for number in range(40))]
    file = written(tmp_path, "".join(f'[{name}]\nkind = "wordcount"\ntopic = "t"\n' for name in names))
    for name, suggestion in (("flihgts", "flights, nearest of 42"), ("zzz", "flights, flows, job0 and 39 more")):
        with pytest.raises(UnknownJobError, match=rf"no job '{name}' is declared in .*; declared: {suggestion}$"):
            read_job(file, name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a", "not TOML"),
        *(
            (f'[a]\ntopic = "t"\n{STREAM}{key} = {number}\n', rf"stream\.{key} = {value}; expected a (finite )?number")
            for key in (
                "min_event_time",
                "max_event_time",
                "max_future_skew",
                "lateness",
                "idle_timeout",
                "adhoc_retention",
            )
            for number, value in (("inf", "inf"), ("nan", "nan"), ("1e300", "1e.300"))
        ),
        (
            f'[a]\ntopic = "a.results"\n{STREAM}',
            "job 'a': topic = 'a.results' makes a loop: a reads what a writes; read",
        ),
        (f'[a]\ntopic = "a.partials"\n{STREAM}', "makes a loop: a reads what a writes"),
        (
            f'[a]\ntopic = "words.results"\n{STREAM}{WORD_COUNT.replace("lines", "a.dead-letters")}',
            "makes a loop: .* reads what .* writes, and .* reads what .* writes; read another topic",
        ),
        ("[a]\n", "the key topic is missing"),
        (
            f'[a]\ntopic = "t"\nreducer = 3\n{STREAM}',
            "unknown key reducer; the keys are backpressure, kind, max_messages_per_round, parallelism",
        ),
        (f'[a]\ntopic = "t"\nparallelism = 0\n{STREAM}', "parallelism = 0; expected a whole number of at least 1"),
        (f'[a]\ntopic = "t"\nstart_from = "now"\n{STREAM}', 'start_from = \'now\'; expected "earliest" or "latest"'),
        (f'[A]\ntopic = "t"\n{STREAM}', "small letters"),
        (f'[a]\ntopic = "t"\nsink = "csv"\n{STREAM}', 'sink = \'csv\'; expected "" or "parquet"'),
        (
            '[a]\ntopic = "t"\n[a.stream]\ntime = "x"\nfields = [["t", "timestamp(s)"]]\n',
            "its time, 'x', is not one of",
        ),
        ("words = 3\n", "expected a table, got 3"),
        (
            '[words]\nkind = "joins"\ntopic = "t"\n',
            "kind 'joins': no installed package provides 'joins'; installed: join, tracker",
        ),
        (f"{WORD_COUNT}lines = 3\n", "unknown key lines; the keys are backpressure, emit_interval"),
        (f"{WORD_COUNT}tracking = 3\n", "tracking = 3; expected true or false or a table"),
        (f"{TRACKED}acker = 3\n", r"tracking: unknown key acker; did you mean ackers\?; the keys are ackers, delivery"),
        (f"{TRACKED}ackers = 0\n", "tracking.ackers = 0; expected a whole number from 1 to 256"),
        (f"{TRACKED}ackers = 6\nmax_ackers = 4\n", "max_ackers = 4; expected at least the number of ackers, 6"),
        (f"{TRACKED}max_attempts = 61\n", "max_attempts = 61; expected a whole number from 1 to 60"),
        (f"{TRACKED}timeout = 0\n", "timeout = 0; expected a finite number above 0"),
        (f'{TRACKED}delivery = "twice"\n', 'delivery = \'twice\'; expected "exactly-once" or "at-least-once"'),
        (
            f'{TRACKER}topic = "t"\n',
            "unknown key topic; the keys are backpressure, kind, parallelism, signal_channel, tracking",
        ),
        (
            f"{TRACKER}[orders.tracking]\nmax_attempts = 3\n",
            "unknown key max_attempts; did you mean .*; the keys are ackers, max_ackers,",
        ),
        (f'{TRACKER}[orders.tracking]\ndelivery = "exactly-once"\n', "unknown key delivery"),
    ],
)
def test_a_wrong_declaration_is_named(tmp_path: Path, text: str, message: str) -> None:
    """The file, the job, and what is known instead."""
    with pytest.raises((InvalidJobError, InvalidStreamError), match=message):
        read_jobs(written(tmp_path, text))


def test_the_stages_of_a_job_have_topics_and_folders_of_their_own(tmp_path: Path) -> None:
    """Nothing of one job is another's."""
    job = read_jobs(written(tmp_path, f'[a]\ntopic = "rows"\nparallelism = 3\n{STREAM}'))["a"]
    mapping, reducing = place_stages(job.name, job.stages())
    logs = [f"{stage}.{log}" for stage in ("map", "reduce") for log in ("rounds", "reports")]
    logs += ["reduce.state-requests", "reduce.state-replies"]
    results = {"a.partials": 3, "a.results": 3, "a.dead-letters": 3}
    assert topics_of_stages(job) == {**results, **{f"a.{log}": 1 for log in logs}}
    assert (mapping.topic, mapping.downstream, reducing.topic) == ("rows", "a.partials", "a.partials")
    settings = StreamSettings()
    folders = [settings.state_folders(replace(stage, life="life")).folder(0) for stage in (mapping, reducing)]
    assert folders[0] != folders[1]
    launch = StageLaunch(
        mapping, Cluster("127.0.0.1:9092", {"sasl_password": "x"}), "/jobs/a", tasks=2, seconds=600.0, round_bytes=1
    )
    assert StageLaunch.decode(launch.encode()).encode() == launch.encode() and mapping.make_step()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("windows.map", "its step is 'windows.map'; write package.module:factory"),
        ("no.such.module:Step", "its step 'no.such.module:Step' cannot be imported: No module named 'no'; install"),
        (f"{WINDOWS}.mapper:Mop", f"its step is '{WINDOWS}.mapper:Mop', and the module .* has no Mop to call"),
        (f"{WINDOWS}.mapper:BATCH_ROWS", "has no BATCH_ROWS to call"),
    ],
)  # fmt: skip
def test_a_step_that_is_nowhere_is_named_with_what_to_do(step: str, message: str) -> None:
    """Which stage of which job wants it, and why it is none."""
    with pytest.raises(UnknownStepError, match=f"job.map: .*{message}"):
        Stage("map", step, "rows", job="job").make_step()


def test_a_stage_that_sends_to_where_no_stage_reads_is_refused(tmp_path: Path) -> None:
    """Its messages would be of no use, and their topic has no number of units."""
    specs = [StageSpec("first", "", "in", downstream="a.second"), StageSpec("second", "", "a.seconds", stamped=True)]
    expected = r"job 'a': its stage 'first' sends to 'a.second', which none of its stages reads"
    with pytest.raises(InvalidJobError, match=expected):
        place_stages("a", specs)


def test_a_change_of_queries_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    """And one that is made is there for whoever looks next."""
    job = read_jobs(written(tmp_path, f'[a]\ntopic = "rows"\n{STREAM}'))["a"]
    folder = JobFolder(tmp_path / "job")
    sql = "SELECT k, count(*) AS n FROM a GROUP BY k WINDOWING 5 s"
    change_registry(folder, lambda current_registry: (current_registry or job.registry()).register("q", sql))
    with pytest.raises(QueryExistsError):
        change_registry(folder, lambda current_registry: (current_registry or job.registry()).register("q", sql))
    registry = read_registry(folder)
    assert registry is not None and registry.text("q") == sql and registry.version == 1
