"""`springline.testing` as somebody else's tests use it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from springline.persistence.errors import IrrecoverableError
from springline.persistence.private_files import default_cache_folder
from springline.persistence.profile import import_root
from springline.spark_jobs.streaming.errors import UnknownStepError
from springline.stream_kinds import Input, Output, State
from springline.testing import JobRun, LinesRunner, StageRun, lines_of, make_dataset, platform_in

JOIN = """
[slow]
kind = "join"
on = "s.ticket = c.ticket AND c.minutes > 5"
select = ["s.ticket", "c.minutes"]
parallelism = 1
max_units = 2
left = { topic = "sales", alias = "s", fields = [["ticket", "int"]] }
right = { topic = "cups", alias = "c", fields = [["ticket", "int"], ["minutes", "int"]] }
"""


class Adder:
    """Adds numbers up, and emits the sum with each round."""

    def __call__(self, state: State, step_input: Input) -> Output:
        total = state.scalars.get("total", 0) + sum(int(bytes(message.value)) for message in step_input.messages)
        return Output(State({"total": total}), results=[pa.RecordBatch.from_pylist([{"total": total}])])


ADDER = f"{__name__}:Adder"


# ---- a platform in a folder


def test_a_platform_in_a_folder_persists_and_brings_back(tmp_path: Path) -> None:
    """The cache goes with it: a second one finds what was persisted or can be recomputed, and nothing else."""
    runner = LinesRunner()
    runner.add("shout", lambda sources, params: [line.upper() for line in sources[0]])
    with platform_in(tmp_path, runner=runner) as platform:
        make_dataset(platform, "words/load", lines=["to be"])
        platform.persister.drain()
        make_dataset(platform, "words/shout", "shout", ["words/load"])
        make_dataset(platform, "words/lost", lines=["or not"])
    with platform_in(tmp_path, runner=runner) as platform:
        assert lines_of(platform, "words/load") == ["to be"]
        assert lines_of(platform, "words/shout") == ["TO BE"]
        with pytest.raises(IrrecoverableError, match="words/lost"):
            lines_of(platform, "words/lost")
    assert runner.executed_operations == ["shout", "shout"]


def test_nothing_is_left_in_memory(tmp_path: Path) -> None:
    """The cache is removed, whatever happened."""
    with pytest.raises(ZeroDivisionError), platform_in(tmp_path) as platform:
        make_dataset(platform, "a", lines=["x"])
        assert default_cache_folder(tmp_path / "home").is_dir()
        raise ZeroDivisionError
    assert not default_cache_folder(tmp_path / "home").exists()


def test_no_setting_leads_a_platform_of_a_test_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the environment nor a profile; what it is given counts, and the environment is as it was."""
    production_folder = tmp_path / "production"
    monkeypatch.setenv("SPRINGLINE_UNDER_URI", production_folder.as_uri())
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("SPRINGLINE_PROFILE", "none of that name")
    with platform_in(tmp_path, keep_generations=3) as platform:
        make_dataset(platform, "a", lines=["x"])
        platform.persister.drain()
        assert platform.settings.keep_generations == 3
        assert platform.lineage_sender is None
        assert (tmp_path / "home" / "under" / "a").is_dir()
    assert not production_folder.exists()
    assert os.environ["SPRINGLINE_UNDER_URI"] == production_folder.as_uri()


# ---- steps and jobs


def test_a_step_goes_on_where_it_was_whatever_dies_and_is_lost(tmp_path: Path) -> None:
    """At every call of the log; the sums are those of a run without faults."""
    plain = StageRun(ADDER, tmp_path / "plain", admitted=2)
    plain.feed("1", "2", "3", "4", "5")
    plain.drain()
    harmed = StageRun(ADDER, tmp_path / "harmed", admitted=2)
    harmed.feed("1", "2", "3", "4", "5")
    calls = 0
    while harmed.crash(calls, lose_states=bool(calls % 2)):
        calls += 1
    harmed.drain()
    assert calls > 3
    assert harmed.results() == plain.results()
    assert plain.results()[-1] == {"total": 15}


def test_what_a_step_cannot_use_is_a_dead_letter_with_its_place(tmp_path: Path) -> None:
    """After as many tries as the stage has."""
    run = StageRun(ADDER, tmp_path, partitions=2, tries=1)
    run.feed("1", "x")
    for _ in range(3):
        try:
            run.drain()
        except Exception:
            run.restart()
    (letter,) = run.dead_letters()
    assert (letter.topic, letter.partition, letter.value) == ("input", 1, b"x")
    assert "invalid literal" in letter.reason


def test_a_step_whose_import_path_leads_nowhere_is_refused_at_once(tmp_path: Path) -> None:
    """Before any message is fed."""
    with pytest.raises(UnknownStepError, match="has no Addr to call"):
        StageRun(f"{__name__}:Addr", tmp_path)


def test_a_declared_join_reads_two_topics(tmp_path: Path) -> None:
    """Each is fed by its name."""
    (tmp_path / "streams.toml").write_text(JOIN)
    run = JobRun.from_declaration(tmp_path / "streams.toml", "slow", tmp_path)
    run.feed("1", "2", topic="sales")
    run.feed("1,2", "2,9", topic="cups")
    run.drain()
    assert run.results() == [{"ticket": 2, "minutes": 9}]


# ---- what it needs


def test_all_but_the_suites_work_without_pytest(tmp_path: Path) -> None:
    """As in a program that brings its own tests."""
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "from springline.testing import JobRun, LinesRunner, MemoryLog, StageRun, make_dataset, platform_in\n"
        "try:\n    from springline.testing import StoreSuite\nexcept ImportError as error:\n    print(error)\n"
    )
    completed_process = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(import_root())},
        capture_output=True, text=True,
    )  # fmt: skip
    assert "pip install 'springline[testing]'" in completed_process.stdout, completed_process.stderr
