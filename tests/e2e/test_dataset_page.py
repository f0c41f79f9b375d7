"""The page of a dataset, with answers as the API gives them: what it says at a glance, in every state."""

from __future__ import annotations

import re
from dataclasses import asdict
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from springline.airflow.lineage.dataset_detail import DatasetEvent
from springline.airflow.lineage.neighbourhood import Neighbourhood
from tests.support.airflow.browser import THEMES, faults, fits
from tests.support.airflow.dataset_answers import (
    PATH,
    answers,
    comparison,
    detail,
    listing,
    neighbourhood,
    rows,
    summary,
)
from tests.support.airflow.page_files import SITE

AWAY = (503, {"detail": "the catalog does not answer"})
WIDTHS = (1024, 1440, 2560)
HOSTILE = {
    "html": "e2e/<img src=x onerror=alert(1)>/<script>document.title=1</script>",
    "quotes": """e2e/"'`&quot;><b onclick='x'>""",
    "query": "e2e/a&path=etl#frag%2F+b",
    "long": "e2e/" + "/".join(["very-long-name-" * 13] * 2),
    "rtl": "e2e/مجموعة بيانات/עברית",
}


def address(path: str = PATH) -> str:
    """The address of a page."""
    return f"{SITE}/pages/dataset?path={quote(path, safe='')}"


@pytest.fixture
def shown(alone):
    """The page of a usual dataset, and the answers that it gets."""
    page, replies = alone
    replies |= answers()
    page.goto(address())
    page.get_by_role("region", name="Facts").wait_for()
    return page, replies


# ---- questions


def test_what_made_this_and_what_depends_on_it_is_seen_at_once(clicks, shown):
    """From the address of the dataset: no click, nothing to open, nothing to scroll to."""
    page, _ = shown
    lineage = page.get_by_role("region", name="Lineage", exact=True)
    maker, dependents = lineage.locator(".made"), lineage.locator(".dependents")
    expect(maker).to_contain_text(re.compile(r"Made by clean from etl/2013-01-05/raw@2\s+persisted, etl/planes@1"))
    expect(dependents).to_contain_text(re.compile(r"2 datasets depend on it: etl/2013-01-05/hours@1\s+cached"))
    for place in (maker, dependents, lineage.locator(".neighbours svg")):
        expect(place).to_be_in_viewport()
    expect(lineage).to_contain_text("1 more source or dependent of DAGs that you may not read.")
    facts = page.get_by_role("region", name="Facts")
    expect(facts).to_contain_text("clean (version 5f8a2c)")
    run = facts.get_by_role("link", name="scheduled__2013-01-05T00:00:00+00:00")
    address_of_run = "../../dags/etl_lineage/runs/scheduled__2013-01-05T00%3A00%3A00%2B00%3A00"
    expect(run).to_have_attribute("href", address_of_run)
    assert clicks.number == 0


def test_the_tables_that_it_was_made_from_are_seen_with_their_versions(alone):
    """And when it was put into a table itself, under its name."""
    page, replies = alone
    into = "iceberg:lake.flights.<b>clean</b>@8273482734"
    event = DatasetEvent(1.0, "in_table", "table writer here:7", into, "committed", "present", "present")
    replies |= answers(tables=("delta:s3://lake/orders@17",), history=(event,))
    page.goto(address())
    lineage = page.get_by_role("region", name="Lineage", exact=True)
    expect(lineage.locator(".made")).to_contain_text("etl/planes@1 persisted, delta:s3://lake/orders@17.")
    history = page.get_by_role("region", name="History")
    expect(history).to_contain_text("In its table, for other engines")
    expect(history).to_contain_text(into)
    assert faults(page) == []


def test_from_a_dataset_to_what_depends_on_what_depends_on_it_is_one_click(clicks, shown):
    """The picture goes two steps in each direction; each box leads on."""
    page, replies = shown
    report = page.locator("a.node").filter(has_text="etl/report@9")
    replies |= answers("etl/report", generation=9, generations=[summary("etl/report", 9)])
    report.click()
    expect(page.locator("h2.name")).to_contain_text("etl/report@9")
    assert clicks.number == 1


def test_bringing_back_what_is_lost_takes_two_clicks(shown):
    """One for the button, whose dry run says what will be done, and one that does it."""
    page, replies = shown
    replies["datasets/" + PATH] = (200, asdict(detail(
        status="lost", cache="lost", actions=["recover", "pin"],
        headline="Lost: Recover re-runs 3 operations, about 12 s.",
    )))  # fmt: skip
    message = f"{PATH}@2 will be restored in about 12 s: run clean"
    replies[f"datasets/{PATH}/recover"] = (200, {"allowed": True, "message": message, "run_id": ""})
    expect(page.locator(".summary")).to_have_text("Lost: Recover re-runs 3 operations, about 12 s.")
    buttons = page.get_by_role("group", name="Actions").get_by_role("button")
    expect(buttons).to_have_text(["Recover", "Pin"])
    buttons.first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(message)
    with page.expect_request(lambda request: request.method == "POST") as asked:
        dialog.get_by_role("button", name="Recover").click()
    assert asked.value.post_data_json == {"generation": 2}


# ---- at a glance


def test_facts_have_units_and_the_history_is_a_timeline(shown):
    """Times to persist and to recompute, both as they are known; events in plain words, the newest first."""
    page, replies = shown
    entries = page.get_by_role("region", name="History").locator("li")
    expect(entries).to_have_count(6)
    expect(entries.first).to_contain_text(re.compile("Transfer ended without a copy.* ago.*The under-store is away"))
    expect(entries.nth(2)).to_contain_text(re.compile("Pinned.*min ago · ulla.*Requested manually"))
    expect(entries.last).to_contain_text(re.compile("Write began.*2 h ago"))
    assert entries.first.locator("time").get_attribute("datetime")
    facts = page.get_by_role("region", name="Facts")
    for text in ("48.3 MB", "842,113", "2.8 s predicted as data", "ds=2013-01-05", "complete; pinned",
                 "2.14 s when it was made; about 12 s predicted for 3 steps without the cache"):  # fmt: skip
        expect(facts).to_contain_text(text)
    replies["datasets/" + PATH] = (200, asdict(detail(actual_seconds=3.1, persisted_at=1.0, under_store="present")))
    expect(facts).to_contain_text("3.1 s as data; 2.8 s were predicted")


def test_only_what_may_be_done_has_a_button(alone):
    """One line says what is not permitted, and why; each reason once."""
    page, replies = alone
    refused = dict.fromkeys(("persist", "pin", "mark"), "you may not change the DAG etl")
    replies |= answers(actions=[], refused={**refused, "recover": "you may not trigger the DAG recover"})
    page.goto(address())
    expect(page.locator("p.refused")).to_have_text([
        "Not permitted: Persist now, Pin and Mark as checkpoint, because you may not change the DAG etl.",
        "Not permitted: Check and recover, because you may not trigger the DAG recover.",
    ])  # fmt: skip
    expect(page.get_by_role("group", name="Actions")).to_have_count(0)
    expect(page.locator("button:disabled")).to_have_count(0)


def test_columns_are_there_and_rows_come_when_asked_for(shown):
    """With their types; what is missing is not what is empty."""
    page, replies = shown
    columns = page.get_by_role("region", name="Columns", exact=True).first
    expect(columns).to_contain_text("6 columns, from the metadata of part-00000.snappy.parquet; 8 files.")
    cells = columns.locator("tbody tr").nth(3).locator("td")
    expect(cells).to_have_text(["time_hour", "timestamp[us, tz=UTC]", "allowed"])
    part = page.locator("section.rows")
    expect(part.locator("table")).to_have_count(0)
    part.get_by_role("button", name="Show 20 rows").click()
    expect(part.locator("tbody tr")).to_have_count(3)
    expect(part.locator(".null").first).to_have_text("null")
    expect(part).to_contain_text("The first 3 rows, from the cache.")
    replies[f"datasets/{PATH}@2/rows"] = (422, {"detail": f"the file part-0 of {PATH}@2 is neither Parquet nor text"})
    part.get_by_role("button", name="Show 100 rows").click()
    expect(part.get_by_role("status")).to_have_text(f"The file part-0 of {PATH}@2 is neither Parquet nor text.")


def test_generations_are_compared_with_signs_and_words(shown):
    """This one with the one before, or any two; a difference is no colour alone."""
    page, replies = shown
    part = page.get_by_role("region", name="Generations compared").first
    expect(part).to_contain_text("The rows differ; 1 column added, 1 column removed, 1 column changed;")
    expect(part).to_contain_text("made by another version of the operation.")
    for row, text in (("column tags", "+ added"), ("column tailnum", "− removed"), ("column dep_delay", "≠ changed"),
                      ("size", "≠ changed (+20.8 %)"), ("operation", "= same")):  # fmt: skip
        expect(part.locator("tbody tr").filter(has_text=row).first).to_contain_text(text)
    replies[f"datasets/{PATH}@1/comparison"] = (200, asdict(comparison(same_digest=True)))
    with page.expect_request(re.compile("@1/comparison.other=1")):
        part.get_by_label("compared with").select_option("1")
    expect(part).to_contain_text("The rows are equal;")


def test_a_dataset_without_neighbours_or_other_generations_says_so(alone):
    """There is no picture of a single box, and nothing to compare it with."""
    page, replies = alone
    nothing = {"sources": [], "dependents": [], "hidden": 0, "operation": "", "params": {}, "rows": None}
    replies |= answers(**nothing, compute_seconds=None, generations=[summary(PATH, 2)])
    alone_in_picture = Neighbourhood(PATH, 2, neighbourhood().nodes[3:4], (), 0, 0, 0, 0)
    replies[f"datasets/{PATH}@2/lineage"] = (200, asdict(alone_in_picture))
    page.goto(address())
    lineage = page.get_by_role("region", name="Lineage", exact=True)
    expect(lineage).to_contain_text("No operation is recorded that made it.")
    expect(lineage).to_contain_text("No dataset depends on it.")
    expect(lineage.locator("svg a")).to_have_count(0)
    expect(page.get_by_text("There is no other generation that you may read.")).to_be_visible()
    expect(page.get_by_label("compared with")).to_be_hidden()


# ---- states


def test_what_fails_is_shown_and_what_holds_stays(shown):
    """The catalog is away, then it is back; an under-store that is away is shown with the reason."""
    page, replies = shown
    usual = replies["datasets/" + PATH]
    replies["datasets/" + PATH] = AWAY
    error = page.get_by_text(re.compile("the catalog does not answer", re.IGNORECASE))
    expect(error.first).to_be_visible()
    expect(page.get_by_role("region", name="Facts")).to_contain_text("48.3 MB")
    replies["datasets/" + PATH] = usual
    expect(error).to_have_count(0)
    away = "the under-store does not answer: /mnt/under does not exist: is its disk mounted?"
    replies |= answers(under_store_away=away, headline="Persisted, but the under-store does not answer; …")
    page.goto(address())
    expect(page.locator(".headline .wrong")).to_have_text(away[0].upper() + away[1:])


@pytest.mark.parametrize(
    ("status", "cache", "text"),
    [
        ("lost", "lost", "No store has its files now; recover it first."),
        ("writing", "writing", "It is still being written."),
        ("retired", "evicted", "Its files are deleted."),
    ],
)
def test_nothing_is_asked_for_that_no_store_has(alone, status, cache, text):
    """Neither columns nor rows; a browser would note the refusal as an error."""
    page, replies = alone
    replies |= answers(status=status, cache=cache, actions=[])
    for part in ("schema", "rows"):
        del replies[f"datasets/{PATH}@2/{part}"]
    page.goto(address())
    expect(page.locator("section.columns .empty")).to_have_text(text)
    expect(page.locator("section.rows .empty")).to_have_text(text)
    expect(page.locator("section.rows button")).to_have_count(0)


def test_a_part_that_fails_says_so_in_its_place(alone):
    """The others are not touched."""
    page, replies = alone
    replies |= answers()
    replies |= {f"datasets/{PATH}@2/schema": (409, {"detail": f"{PATH}@2 is lost from the cache; recover it first"}),
             f"datasets/{PATH}@2/comparison": AWAY, f"datasets/{PATH}@2/lineage": AWAY}  # fmt: skip
    page.goto(address())
    expect(page.locator("section.columns .refused")).to_have_text(f"{PATH}@2 is lost from the cache; recover it first.")
    compared = page.get_by_role("region", name="Generations compared")
    expect(compared.locator(".refused")).to_have_text("The catalog does not answer.")
    expect(page.get_by_role("region", name="Lineage", exact=True)).to_contain_text("catalog does not answer")
    expect(page.get_by_role("region", name="Facts")).to_contain_text("48.3 MB")
    assert faults(page) == []


def test_a_path_that_is_not_there_leads_to_those_that_contain_it(alone):
    """What one may not read is refused with the reason."""
    page, replies = alone
    replies["datasets/clean"] = (404, {"detail": "clean: no dataset was ever written to this path"})
    replies["datasets"] = (200, asdict(listing((PATH, "cached"))))
    page.goto(address("clean"))
    expect(page.get_by_text("no dataset was ever written to this path")).to_be_visible()
    expect(page.get_by_role("link", name=f"{PATH}@1")).to_be_visible()
    replies["datasets/clean"] = (403, {"detail": "you may not read the DAG etl"})
    page.goto(address("clean"))
    expect(page.get_by_text("you may not read the DAG etl")).to_be_visible()
    expect(page.get_by_role("link", name=f"{PATH}@1")).to_have_count(0)


# ---- the list


def test_without_a_path_the_newest_are_shown(alone):
    """Or those in one state."""
    page, replies = alone
    replies["datasets"] = (200, asdict(listing((PATH, "cached"), ("etl/planes", "persisted"), is_complete=False)))
    page.goto(f"{SITE}/pages/dataset")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody tr").first).to_contain_text(f"{PATH}@1")
    expect(page.get_by_text("There are older ones: search by path to see them.")).to_be_visible()
    with page.expect_request(re.compile("datasets.status=lost")):
        page.get_by_label("State").select_option("lost")
    replies["datasets"] = (200, asdict(listing()))
    expect(page.get_by_text("No dataset that you may read is in this state.")).to_be_visible()
    page.goto(f"{SITE}/pages/dataset")
    expect(page.get_by_text("There are no datasets that you may read.")).to_be_visible()
    assert faults(page) == []


def test_a_path_is_completed_by_the_keyboard_and_by_the_mouse(alone):
    """What is typed is looked for; arrows choose, Enter leads there, Escape closes, as does leaving the field."""
    page, replies = alone
    replies |= answers()
    page.goto(f"{SITE}/pages/dataset")
    field = page.get_by_role("combobox", name="Path")
    field.focus()
    with page.expect_request(re.compile("datasets.search=cle&")):
        page.keyboard.type("cle")
    options = page.locator(".completions [role=option]")
    expect(options).to_have_text([PATH, "etl/planes"])
    expect(field).to_have_attribute("aria-expanded", "true")
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    page.keyboard.press("ArrowDown")
    expect(options).to_have_count(2)
    for key, selected in (("ArrowUp", 1), ("ArrowDown", 0), ("ArrowDown", 1), ("ArrowUp", 0)):
        page.keyboard.press(key)
        expect(options.nth(selected)).to_have_attribute("aria-selected", "true")
    assert field.get_attribute("aria-activedescendant") == options.first.get_attribute("id")
    page.keyboard.press("Enter")
    expect(page.locator("h2.name")).to_contain_text(f"{PATH}@2")
    page.goto(f"{SITE}/pages/dataset")
    page.get_by_role("combobox", name="Path").press_sequentially("cle")
    page.locator(".completions [role=option]").first.click()
    expect(page.locator("h2.name")).to_have_text(re.compile(rf"{PATH}@2\s+cached"))
    page.get_by_role("combobox", name="Path").press_sequentially("x")
    expect(page.locator(".completions [role=option]")).to_have_count(2)
    page.locator("h2.name").click()
    expect(page.locator(".completions [role=option]")).to_have_count(0)


# ---- for everybody


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_for_everybody_at_every_width(shown, screenshots, theme, width):
    """Nothing serious for axe, no sideways scrolling; with rows and a comparison."""
    page, _ = shown
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    page.set_viewport_size({"width": width, "height": 1000})
    page.get_by_role("button", name="Show 20 rows").click()
    page.locator("section.rows tbody").wait_for()
    assert fits(page)
    assert faults(page) == []
    facts = page.get_by_role("region", name="Facts").bounding_box()
    history = page.get_by_role("region", name="History").bounding_box()
    assert (history["x"] > facts["x"]) == (width > 1100) and (history["y"] > facts["y"]) == (width <= 1100)
    page.screenshot(path=screenshots / f"dataset-{width}-{theme}.png", full_page=True)


def test_arrow_keys_lead_from_box_to_box(shown):
    """Left to sources, right to dependents, up and down within a layer."""
    page, _ = shown
    page.locator("a.node.here").focus()
    for key, name in (("ArrowRight", "etl/2013-01-05/hours@1"), ("ArrowDown", "etl/2013-01-05/causes@1"),
                      ("ArrowRight", "etl/report@9"), ("ArrowLeft", "etl/2013-01-05/hours@1")):  # fmt: skip
        page.keyboard.press(key)
        assert page.evaluate("() => document.activeElement.dataset.node") == name
    expect(page.locator("a.node.here")).to_have_attribute("aria-current", "true")


def test_what_was_opened_and_chosen_stays_while_the_page_follows(shown):
    """Rows, the chosen generation and the focus."""
    page, replies = shown
    page.get_by_role("button", name="Show 20 rows").click()
    page.locator("section.rows tbody").wait_for()
    replies[f"datasets/{PATH}@1/comparison"] = (200, asdict(comparison(same_digest=True)))
    page.get_by_label("compared with").select_option("1")
    page.get_by_role("button", name="Persist now").focus()
    replies["datasets/" + PATH] = (200, asdict(detail(reads=5)))
    expect(page.get_by_role("region", name="Facts")).to_contain_text("5 times")
    expect(page.get_by_label("compared with")).to_have_value("1")
    expect(page.locator("section.rows tbody tr")).to_have_count(3)
    expect(page.get_by_role("button", name="Persist now")).to_be_focused()


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_name_is_text_wherever_it_stands(alone, what):
    """In the headline, the picture, sentences, facts, rows and completions; nothing of it becomes an element."""
    page, replies = alone
    path = HOSTILE[what]
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    place = "/".join(quote(part, safe="!'()*") for part in path.split("/"))
    replies |= answers(
        path, place, operation=path, task_id=path, run_id=path, sources=[summary(path)], dependents=[summary(path)],
        params={path: path}, error=path, headline=path,
    )  # fmt: skip
    sample = asdict(rows(path))
    sample["columns"][0]["name"] = sample["rows"][0][0] = path
    replies[f"datasets/{place}@2/rows"] = (200, sample)
    page.set_viewport_size({"width": 1024, "height": 900})
    page.goto(address(path))
    expect(page.locator("h2.name")).to_contain_text(f"{path}@2")
    page.get_by_role("button", name="Show 20 rows").click()
    expect(page.locator("section.rows tbody td").first).to_have_text(path)
    expect(page.locator("a.node.here title")).to_contain_text(f"{path}@2, this one")
    field = page.get_by_role("combobox", name="Path")
    field.fill("e2e")
    field.press_sequentially("/")
    expect(page.locator(".completions [role=option]").first).to_have_text(path)
    assert fits(page)
    assert page.locator("main img, main script, main b").count() == 0
    assert (asked, page.title()) == ([], f"{path} · Springline")
    with page.expect_navigation():
        page.locator(".completions [role=option]").first.click()
    assert page.evaluate("() => new URLSearchParams(location.search).get('path')") == path
