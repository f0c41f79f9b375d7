"""The documents say what is so: commands run, links lead somewhere, generated parts are up to date."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import RESULTS
from docs.__main__ import WITH_EXAMPLES, generated_pages
from docs.console import BrokenExampleError, correct_outputs, examples_in, files_in, outputs_match, outputs_of
from docs.figures import figures
from docs.generated_parts import fill_parts
from springline.cli import iterate_commands
from springline.persistence.decisions.priority import IRRECOVERABLE_SECONDS, IRRECOVERABLE_SECONDS_PER_BYTE
from springline.persistence.model.dataset import CacheState, DatasetStatus, Phase, Strategy, UnderStoreState
from springline.persistence.model.transitions import INITIAL_STATE, TRANSITIONS, Event, GenerationState
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.settings import Settings
from springline.services.settings import ServiceSettings
from springline.spark_jobs.settings import JobSettings
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.sources.settings import SchemaRegistrySettings

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
INDEX = ROOT / "docs" / "README.md"
COMPARISON = ROOT / "docs" / "comparison.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
PERSISTENCE = ROOT / "docs" / "persistence.md"
OPERATIONS = ROOT / "docs" / "operations.md"
PLACES = ("*.md", "docs/*.md", "[a-z]*/README.md", "[a-z]*/[a-z]*/README.md")
DOCUMENTS = sorted({path for place in PLACES for path in ROOT.glob(place)})
every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose(path: Path) -> str:
    """A document without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", read(path), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", prose(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows_below(path: Path, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    section = read(path).split(f"\n{heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\|\n)+", section, flags=re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table[0].splitlines()[2:]]


# ---- what is executed


@pytest.mark.parametrize("document", WITH_EXAMPLES, ids=lambda path: path.name)
def test_the_commands_of_a_document_print_what_it_shows(document, tmp_path):
    """Every command in a console block is run, one after another, with the files that the document shows."""
    text = read(document)
    examples = examples_in(text)
    printed = outputs_of(text, tmp_path, {})
    assert len(printed) == len(examples) > 0
    for example, output in zip(examples, printed, strict=True):
        assert outputs_match(example.output, output), f"run `make docs` if this is right: $ {example.command}\n{output}"


def test_the_operation_that_the_readme_shows_is_one(tmp_path):
    """Declared as shown, it is registered between its maker of sources and its output."""
    ((name, content),) = files_in(read(README)).items()
    (tmp_path / name).write_text(content, encoding="utf-8")
    (operations,) = re.findall(r"export SPRINGLINE_OPERATIONS=(\S+)", read(README))
    completed_process = subprocess.run(
        [sys.executable, "-m", "springline", "operation", "show", "my.late", "--json"],
        cwd=ROOT,
        env={**os.environ, "SPRINGLINE_OPERATIONS": operations, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    declared = json.loads(completed_process.stdout)
    assert (declared["after"], declared["output"]) == (["etl.accepted"], "my/{ds}/late")


# ---- what is generated


def test_the_generated_parts_are_up_to_date():
    """Settings come from the classes that declare them, figures from the results of the benchmarks."""
    stale = [path.name for path, text in generated_pages().items() if read(path) != text]
    assert not stale, f"run `make docs`: {', '.join(stale)} would change"


def test_the_figures_that_are_quoted_are_those_of_the_results():
    """The README and the comparison name a few; each is a value that a benchmark has measured."""
    for document, quoted in {README: quoted_in_readme(), COMPARISON: quoted_in_comparison()}.items():
        text = " ".join(read(document).split())
        assert [each for each in quoted if each not in text] == []


def quoted_in_readme() -> list[str]:
    """With the words around them, so that no other figure is taken for one."""
    rows = reversed(read_result("persistence")["rows"])
    runs = {row["strategy"]: row["run_s"] for row in rows if row["what"] == "run"}
    own, cache_through, cached = (runs[each] for each in ("async_and_sync", "cache_through", "cache_only"))
    faults = read_result("soak")["rows"]
    return [
        f"{goal('persistence', 'Async&Sync below cache_through'):.0%} less".replace("%", " %"),
        f"({own:.0f} s instead of {cache_through:.0f} s)",
        f"{own:.0f} s instead of {cached:.0f} s with the cache alone",
        f"unrecoverable in {goal('wipes', 'runs that ended right under Async&Sync')} runs",
        f"{goal('windows', 'CSV, M rows/s'):.1f} M rows/s on two cores",
        f"{goal('windows', 'CSV against PySpark'):.1f} times PySpark",
        f"{goal('window_latency', 'p99 at 100,000 rows/s, ms')} ms at 100,000 rows/s",
        f"with one row of CSV in each, {rate('Springline, keys', 'csv', 1):.2f} M rows/s",
        f"PyFlink has {rate('PyFlink, its Kafka source', 'csv', 1):.2f}",
        f"(docs/operations.md): {len(faults)}, one a minute",
        f"up to {max(row['healed_s'] for row in faults)} s",
        f"{goal('soak', 'memory at most, with files in memory, GiB')} GiB",
    ]


def quoted_in_comparison() -> list[str]:
    """By the rows of its tables, and in its prose."""
    against = {
        what: [goal("alluxio", f"{side} against ASYNC_THROUGH, {what}") for side in ("Async-Store", "Async&Sync")]
        for what in ("byte-seconds at risk", "recovery, all moments")
    }
    at_risk, recovery = (f"{store} | {sync}" for store, sync in against.values())
    joins = {row["by"]: row["k tuples/CPU s"] for row in read_result("join")["rows"] if row["join"] == "Q3"}
    spark = joins["Spark's stream-stream join"]
    acker = {row["case"]: row["figure"] for row in read_result("acker")["rows"]}
    storm = {what: acker[f"Storm's table: {what}, 1,000,000 in flight"] for what in ("acks", "memory a root")}
    (longer,) = re.findall(r"Async&Sync took ([\d.]+) times the run time", " ".join(read_result("alluxio")["remarks"]))
    p50, p99 = (goal("window_latency", f"{which} at 100,000 rows/s, ms") for which in ("p50", "p99"))
    root50, root99 = (goal("tracking_latency", f"{which} at 100,000 roots/s, ms") for which in ("p50", "p99"))
    return [
        f"| run time | {goal('alluxio', 'Async-Store against ASYNC_THROUGH, run time')} | {longer} |",
        f"took {longer} times as long",
        f"at risk, over time | {at_risk} |",
        f"all moments | {recovery} |",
        f"after {p50} ms in the median and {p99} ms at p99",
        f"{p50} ms in the median, {p99} ms at p99",
        f"| {rate('Springline, keys', 'csv', 5000):.1f} | {rate('PySpark, its Kafka source', 'csv', 5000):.3f} |",
        f"| {joins['heavy-split-work']:.0f} | {spark:.1f} |",
        f"| 5,000 | {rate('Springline, keys', 'csv', 5000):.1f} | {rate('PyFlink, its Kafka source', 'csv', 5000)} |",
        f"| 1 | {rate('Springline, keys', 'csv', 1):.2f} | {rate('PyFlink, its Kafka source', 'csv', 1)} |",
        f"The windows are {goal('windows', 'CSV against PySpark'):.1f} times",
        f"is {goal('windows', 'CSV against PyFlink at its best')} times",
        f"takes {goal('tracking', 'price of tracking in CPU time, word count, rows as roots, %')} % of its CPU time",
        f"has {goal('join', 'through the whole path, Q3, beside DuckDB from Kafka to Kafka')} of DuckDB's rate",
        f"| acks, M/s | {storm['acks']:.2f} | {acker['slots: acks, 1,000,000 in flight']:.1f} |",
        f"bytes | {storm['memory a root']:.1f} | {acker['slots: memory a root, 1,000,000 in flight']:.1f} |",
        f"processes {goal('tracking', 'acks by row through Kafka and Spark, M/s')} M acks/s",
        f"{goal('tracking', 'roots by fold through Kafka and Spark, M/s')} M roots/s",
        f"after {root50} ms in the median, {root99} ms at p99",
    ]


def read_result(benchmark: str) -> dict[str, Any]:
    """What a benchmark has kept."""
    parsed: dict[str, Any] = json.loads(read(RESULTS / f"{benchmark}.json"))
    return parsed


def goal(benchmark: str, name: str) -> Any:
    """What was measured for a goal."""
    (measured,) = (each["measured"] for each in read_result(benchmark)["goals"] if each["goal"] == name)
    return measured


def rate(side: str, form: str, rows: int) -> float:
    """Million rows a second of one side of the benchmark `windows`."""
    columns = ("side", "form", "rows a message")
    rates = {tuple(row[column] for column in columns): row["M rows/s"] for row in read_result("windows")["rows"]}
    return float(rates[side, form, rows])


def test_a_result_that_is_missing_leaves_the_command_that_makes_it(tmp_path):
    """Nothing is made up where nothing was measured."""
    assert "`python -m benchmarks catalog --size full`" in figures("catalog", tmp_path)


def test_figures_show_goals_rows_and_remarks(tmp_path):
    """A result without chosen columns is shown whole; a missed goal stands out."""
    result = {
        "name": "new", "when": "2026-01-02T03:04:05+00:00", "size": "quick",
        "machine": {"processor": "a processor", "cores": 2, "memory_gb": 8.0},
        "rows": [{"what": "one", "took_s": 0.1234}, {"what": "two", "took_s": 12345.6}],
        "goals": [{"goal": "quick", "measured": 2, "target": "at most 1", "met": False}],
        "remarks": ["as it was"],
    }  # fmt: skip
    (tmp_path / "new.json").write_text(json.dumps(result))
    shown = figures("new", tmp_path)
    assert "2026-01-02 (size quick) on 2 cores of a processor" in shown
    assert "| quick | 2 | at most 1 | **missed** |" in shown
    assert "| one | 0.123 |\n| two | 12,346 |" in shown
    assert shown.endswith("- as it was")


def test_what_stands_between_other_markers_is_left_alone():
    """Only the parts of the kind that is asked for are rewritten."""
    text = "<!-- figures: a -->\nold\n<!-- end -->\n<!-- other: b -->\nkept\n<!-- end -->\n"
    assert fill_parts(text, "figures", str.upper) == text.replace("\nold\n", "\n\nA\n\n", 1)


def test_durations_sizes_and_wrapping_may_differ():
    """What no two runs have in common is no difference; a word is."""
    text = "took 3.2 s (1.2 MB: median rate of 3 measurements, 4 ms/MB)\nby persister a:1"
    assert outputs_match("shop: running, process 12\n", "shop: running, process 3456\n")
    other = "took 1 min 3 s (800 B: line through 12 measurements, 1 ms + 3 ms/MB) by\npersister vm:4711\n"
    assert outputs_match(text, other)
    assert not outputs_match(text, text.replace("took", "took only"))
    assert not outputs_match("etl/2013-01-05/clean@1", "etl/2013-01-05/clean@2")


def test_an_ellipsis_stands_for_any_lines():
    """A line that holds nothing else."""
    assert outputs_match("first\n…\nlast\n", "first\nand\nmore\nlast\n")
    assert not outputs_match("first\n…\nlast\n", "first\nand\nmore\n")


def test_only_what_differs_is_corrected():
    """So that durations do not change at every run."""
    text = "```console\n$ a\ntook 1 s\n$ b\nold\n```\n"
    assert correct_outputs(text, ["took 2 s\n", "new\n"]) == text.replace("old", "new")


def test_a_command_that_breaks_is_no_example():
    """A document is left as it is when a command of it ends in a traceback."""
    with pytest.raises(BrokenExampleError, match="b is broken"):
        correct_outputs("```console\n$ a\nold\n```\n", ["Traceback (most recent call last):\nNameError: b is broken\n"])


# ---- what is named


@every_document
def test_links_lead_to_files_and_headings(document):
    """Links between documents, to files and to headings; others are left to their owners."""
    for target in re.findall(r"\]\(([^)]+)\)", prose(document)):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_the_index_links_every_page():
    """Once at least, beside the README's own first steps."""
    linked = {target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", prose(INDEX))}
    assert {path.name for path in INDEX.parent.glob("*.md")} - {INDEX.name} <= linked


@every_document
def test_every_path_that_is_named_exists(document):
    """Folders and modules in backticks, from the root of the checkout."""
    tops = {path.name for path in ROOT.iterdir() if path.is_dir()}
    for token in re.findall(r"`([\w./-]+)`", prose(document)):
        if token.partition("/")[0] in tops and "/" in token:
            assert (ROOT / token).exists() or token.startswith("var/"), token


def test_the_map_names_every_package_and_every_suite():
    """Whatever holds code is on the map."""
    rows = rows_below(ARCHITECTURE, "## The folders")
    folders_in_map = {token for row in rows for token in (row[0].strip("`"), *re.findall(r"`([\w/]+/)`", row[-1]))}
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    folders = {f"{Path(line).parent.as_posix()}/" for line in tracked.splitlines() if "/" in line}
    inner = {"tests/", "tests/support/", "persistence/catalog/migrations/versions/"}
    inner |= {folder for folder in folders if folder.startswith("tests/unit/") or folder.endswith("/dags/")}
    assert folders - inner <= folders_in_map


@every_document
def test_every_setting_that_is_named_is_one(document):
    """`SPRINGLINE_…` in prose and in commands."""
    classes = (Settings, JobSettings, StreamSettings, SchemaRegistrySettings, MonitoringSettings, ServiceSettings)
    declared = {"profile", "project", *(name for each in classes for name in each.model_fields)}
    assert {name.lower() for name in re.findall(r"SPRINGLINE_([A-Z0-9_]+)", read(document))} <= declared


@every_document
def test_every_make_target_that_is_named_is_one(document):
    """`make …` in prose and in commands."""
    targets = set(re.findall(r"^([a-z0-9-]+):", read(ROOT / "Makefile"), flags=re.MULTILINE))
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", read(document), flags=re.MULTILINE | re.DOTALL))
    named = re.findall(r"`make ([a-z0-9-]+)", prose(document)) + re.findall(r"\bmake ([a-z0-9-]+)", commands)
    assert set(named) <= targets


def test_every_command_is_in_the_table_of_commands():
    """And nothing else is."""
    rows = rows_below(PERSISTENCE, "## The command line")
    documented = {re.split(r" \[?[A-Z]", row[0].strip("`"))[0] for row in rows}
    commands = [each for each in iterate_commands() if each[1].import_path.startswith("springline.persistence.")]
    assert documented == {" ".join(path) for path, _ in commands}


def test_every_status_and_every_strategy_is_explained():
    """With Alluxio's name for the strategy."""
    assert [row[0] for row in rows_below(PERSISTENCE, "## Words")] == [f"`{status}`" for status in DatasetStatus]
    strategies = [(row[0].split()[0], row[1]) for row in rows_below(PERSISTENCE, "## Four strategies")]
    assert strategies == [(f"`{each}`", f"`{each.alluxio_write_type}`") for each in Strategy]


def test_the_constants_that_are_reported_are_those_of_the_code():
    """What cannot be recomputed counts as an hour and 1,000 seconds for each megabyte."""
    assert "counts as an hour and 1,000 seconds\nfor each megabyte" in read(PERSISTENCE)
    assert (IRRECOVERABLE_SECONDS, IRRECOVERABLE_SECONDS_PER_BYTE * 1e6) == (3600, 1000)


@pytest.fixture(scope="module")
def texts_in_code() -> str:
    """Every text of the packages, those with values in them in parts."""
    files = (path for package in ("persistence", "spark_jobs", "services") for path in (ROOT / package).rglob("*.py"))
    nodes = (node for path in files for node in ast.walk(ast.parse(read(path))))
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def test_every_complaint_that_is_explained_is_one(texts_in_code):
    """Each part of a message, between what varies in it, is a text of the code."""
    rows = rows_below(OPERATIONS, "## What to do when …")
    quoted = [part for row in rows for part in re.findall(r"`([^`]+)`", row[0])]
    parts = [part.strip(" :;.,()") for message in quoted for part in re.split("…|stream start", message)]
    assert len(quoted) > 15
    assert [part for part in parts if len(part) > 3 and part not in texts_in_code] == []


# ---- the table of states


def test_the_table_of_states_is_the_table_of_transitions():
    """For every state that a history can lead to, the document allows what the code allows, with the same result."""
    rows = rows_below(ARCHITECTURE, "## The states of a generation")
    documented = {pair: after for row in rows for pair, after in transitions_of(row).items()}
    reached = reachable()
    assert {pair: after for pair, after in documented.items() if pair[1] in reached} == {
        pair: after for pair, after in TRANSITIONS.items() if pair[1] in reached
    }


def transitions_of(row: list[str]) -> dict[tuple[Event, GenerationState], GenerationState]:
    """The transitions that one row of the document stands for."""
    changes = product(*(changes_of(cell) for cell in row[1:4]))
    states = [tuple(state_of(*values) for values in zip(*change, strict=True)) for change in changes]
    return {(Event(row[0].strip("`")), before): after for before, after in states}


def state_of(phase: str, cache: str, under: str) -> GenerationState:
    """The state of these values, as the document writes them."""
    return GenerationState(Phase(phase), CacheState(cache), UnderStoreState(under))


def changes_of(cell: str) -> list[tuple[str, str]]:
    """From and to, for each value that a cell such as `present, lost → evicted` names."""
    before, _, after = cell.partition(" → ")
    return [(value, after or value) for value in before.split(", ")]


def reachable() -> set[GenerationState]:
    """Every state that can follow from the first one."""
    states: set[GenerationState] = set()
    new = {INITIAL_STATE}
    while new:
        states |= new
        new = {after for (_, before), after in TRANSITIONS.items() if before in states} - states
    return states
