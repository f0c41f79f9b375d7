"""The page of the lineage: which days are broken, what brings one back, and all of that by mouse or by keyboard."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from urllib.parse import quote_plus

import pytest
from playwright.sync_api import Browser, Page, expect

from springline.airflow.lineage.overview import StreamNode
from springline.persistence.model.dataset import Origin, Strategy
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.testing.lines import LinesRunner
from springline.testing.lines import make_dataset as make
from tests.support.airflow.browser import THEMES, Clicks, faults, fits, themed
from tests.support.airflow.lineage_site import LineageSite

DAYS = tuple(f"2013-01-0{day}" for day in range(1, 8))
SOURCES = {
    "raw": (), "clean": ("raw",), "hours": ("clean",), "routes": ("clean",), "report": ("hours", "routes", "raw"),
}  # fmt: skip
BROKEN = DAYS[4]
HOSTILE = {
    "html": "names/<img src=x onerror=alert(1)>/a",
    "script": "names/<script>document.title=1</script>/b",
    "long": "names/" + "/".join(["very-long-name-" * 13] * 3),
    "rtl": "names/مجموعة بيانات/עברית",
    "query": "names/a&path=etl#frag%2F+b",
}


def runner() -> LinesRunner:
    """Operations of the workflow."""
    lines = LinesRunner()
    for name in SOURCES:
        lines.add(name, lambda sources, params: [f"line {i}" for i in range(20)], output=f"etl/{{ds}}/{name}")
    return lines


@pytest.fixture(scope="module")
def workflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """Seven days of five templates; of the fifth day `hours` and `routes` are lost."""
    home = tmp_path_factory.mktemp("lineage")
    platform = open_platform(Settings(home=home, cache_uri=f"file://{home}/cache"), runner=runner())
    for day in DAYS:
        for name, sources in SOURCES.items():
            make(
                platform, f"etl/{day}/{name}", name, [f"etl/{day}/{each}" for each in sources], params={"ds": day},
                origin=Origin("etl", f"scheduled__{day}T00:00:00+00:00", name),
                strategy=Strategy.CACHE_THROUGH if name == "raw" else Strategy.ASYNC_STORE,
            )  # fmt: skip
    for name in ("hours", "routes"):
        location = platform.catalog.resolve(f"etl/{BROKEN}/{name}").cache_location
        shutil.rmtree(platform.cache.uri(location).removeprefix("file://"))
    platform.maintenance.scan()
    yield platform
    platform.close()


@pytest.fixture
def site(workflow: Platform) -> LineageSite:
    """Its answers; what is posted is granted."""
    answers: dict[str, Callable] = {
        "lineage/recover": lambda body: {
            "datasets": [], "allowed": True, "executed": not body.get("dry_run"), "dag_id": "recover", "run_id": "r1",
            "message": "2 datasets will be restored in about 20 ms, by 2 steps",
        },
        f"datasets/etl/{BROKEN}/hours/recover": lambda body: {
            "allowed": True, "executed": not body.get("dry_run"), "dag_id": "recover", "run_id": "r1",
            "message": f"etl/{BROKEN}/hours@1 will be restored",
        },
        "/api/v2/backfills/dry_run": lambda body: {"backfills": [{"logical_date": body["from_date"]}]},
        "/api/v2/backfills": lambda body: {"id": 1},
    }  # fmt: skip
    return LineageSite(workflow, answers=answers)


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A tab; scripts make no errors in it."""
    context = themed(browser, getattr(request, "param", "light"))
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def shown(page: Page, site: LineageSite) -> Page:
    """The page, once it has its cards."""
    site.open(page)
    page.locator(".template").first.wait_for()
    return page


def card(page: Page, name: str):
    """The card of a template."""
    return page.locator(f'.template[data-key="etl/{{ds}}/{name}"]')


# ---- questions


def test_a_day_is_brought_back(page: Page, site: LineageSite) -> None:
    """The day, then Recover; a dry run is shown before anything is done."""
    clicks = Clicks(page)
    site.open(page)
    page.locator(".alarm .chip").first.click()
    expect(page.locator(".panel")).to_contain_text(f"etl/{BROKEN}/hours@1")
    page.locator(".panel").get_by_role("button", name="Recover", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("will be restored")
    assert clicks.number == 2
    assert site.posted == [(f"datasets/etl/{BROKEN}/hours/recover", {"generation": 1, "dry_run": True})]
    dialog.get_by_role("button", name="Recover").click()
    expect(dialog.get_by_role("link", name="open the DAG run")).to_have_attribute("href", "../../dags/recover/runs/r1")
    assert site.posted[-1][1] == {"generation": 1}


def test_what_is_broken_is_said_at_once_and_brought_back_with_one_button(page: Page, site: LineageSite) -> None:
    """In words, with a chip for each day, and without a click."""
    clicks = Clicks(page)
    site.open(page)
    expect(page.locator(".alarm")).to_contain_text("2 lost datasets in 1 partition:")
    expect(page.locator(".alarm .chip")).to_have_text([f"lost {BROKEN}"])
    page.get_by_role("button", name="Recover all 2 lost").click()
    expect(page.get_by_role("dialog")).to_contain_text("2 datasets will be restored in about 20 ms, by 2 steps.")
    assert clicks.number == 1 and site.posted == [("lineage/recover", {"partitions": [BROKEN], "dry_run": True})]


# ---- one day through the whole picture


def test_a_day_is_selected_in_every_card(shown: Page) -> None:
    """By a click on any strip; the panel has that generation, and the address names it."""
    days = card(shown, "hours").locator(".days-of")
    days.click(position={"x": 4 * 14 * days.bounding_box()["width"] / 166 + 3, "y": 6})
    expect(shown.locator(".panel h2")).to_contain_text(BROKEN)
    expect(card(shown, "hours").locator(".state-line")).to_have_text("lost")
    expect(card(shown, "raw").locator(".state-line")).to_have_text("persisted")
    expect(shown.locator(".ends .chosen")).to_have_text(f"{BROKEN}: lost")
    assert f"partition={BROKEN}" in shown.url
    shown.reload()
    expect(shown.locator(".panel h2")).to_contain_text(BROKEN)


def test_the_chain_that_would_bring_it_back_is_lit(shown: Page) -> None:
    """Sources first in the panel; the others recede."""
    card(shown, "report").locator(".label").click()
    expect(shown.locator(".panel #recovery")).to_contain_text("If the cache were lost, 4 steps would bring it back")
    steps = shown.locator(".panel .steps li")
    expect(steps.first).to_contain_text(f"recompute etl/{DAYS[-1]}/clean")
    expect(steps.last).to_contain_text(f"recompute etl/{DAYS[-1]}/report")
    lit = shown.locator(".template.chain")
    expect(lit).to_have_count(4)
    assert shown.locator(".edge.chain").get_attribute("d")


def test_a_day_is_backfilled_from_its_panel(shown: Page, site: LineageSite) -> None:
    """By Airflow's own API, with its dry run before."""
    shown.locator(".alarm .chip").first.click()
    shown.locator(".panel").get_by_role("button", name="Backfill this day").click()
    dialog = shown.get_by_role("dialog")
    expect(dialog).to_contain_text(f"1 DAG run of etl will be started, whether or not the day ran before: {BROKEN}.")
    dialog.get_by_role("button", name="Backfill").click()
    expect(dialog.get_by_role("link")).to_have_attribute("href", "../../dags/etl/backfills")
    place, body = site.posted[-1]
    assert (place, body["from_date"], body["to_date"]) == (
        "/api/v2/backfills", f"{BROKEN}T00:00:00Z", f"{BROKEN}T00:00:00Z",
    )  # fmt: skip


def test_a_path_in_the_address_opens_its_generation(page: Page, site: LineageSite) -> None:
    """As the links of other pages have it."""
    site.open(page, f"?path=etl/{BROKEN}/hours")
    expect(page.locator(".panel")).to_contain_text(f"etl/{BROKEN}/hours@1")
    expect(card(page, "hours")).to_contain_class("selected")


# ---- filters and groups


def test_filters_narrow_the_picture_and_stay_in_the_address(shown: Page) -> None:
    """Each by itself; an empty picture says why. A field completes what is typed with values of the catalog."""
    expect(shown.locator(".count")).to_have_text("5 templates, 35 datasets")
    shown.get_by_label("State").select_option("lost")
    expect(shown.locator(".template")).to_have_count(2)
    assert "state=lost" in shown.url
    shown.get_by_label("From").fill(DAYS[5])
    shown.get_by_label("From").press("Enter")
    expect(shown.locator(".empty")).to_contain_text("No dataset that you may read matches the filter.")
    shown.get_by_label("State").select_option("")
    expect(shown.locator(".count")).to_have_text("5 templates, 35 datasets")
    expect(shown.locator(".ends bdi").first).to_have_text(DAYS[5])
    shown.get_by_label("DAG", exact=True).fill("et")
    expect(shown.locator("#dag_id-values option")).to_have_attribute("value", "etl")


def test_groups_are_expanded_and_collapsed(shown: Page) -> None:
    """A click on a group; a button collapses it again."""
    shown.get_by_label("Group by").select_option("dag")
    group = shown.locator(".template.group")
    expect(group).to_contain_text("5 templates")
    group.locator(".label").click()
    expect(shown.locator(".template")).to_have_count(5)
    shown.get_by_role("button", name="Collapse etl").click()
    expect(shown.locator(".template")).to_have_count(1)
    shown.locator(".alarm .chip").first.click()
    expect(card(shown, "hours")).to_contain_class("selected")


def test_stream_jobs_are_in_the_same_picture(page: Page, site: LineageSite) -> None:
    """With health, state and topics; one that reads the results of another stands behind it."""
    site.streams = [
        StreamNode(
            "stream:ticks", "ticks", "stream_ticks", "lagging", "4,810 messages behind", 4810, 51_000_000,
            ["market.ticks"], ["ticks.results"],
        ),
        StreamNode(
            "stream:sums", "sums", "stream_sums", "ok", "it keeps up", 0, 1000, ["ticks.results"], ["sums.results"]
        ),
    ]  # fmt: skip
    site.open(page)
    ticks, sums = page.locator('[data-key="stream:ticks"]'), page.locator('[data-key="stream:sums"]')
    expect(ticks).to_contain_text("51 MB of state")
    expect(ticks).to_contain_text("lagging4,810 behind")
    expect(ticks).to_contain_text("market.ticks → ticks.results")
    assert ticks.bounding_box()["x"] < sums.bounding_box()["x"]
    ticks.focus()
    page.keyboard.press("ArrowRight")
    assert faults(page) == []
    ticks.click()
    page.wait_for_url("**/streams?job=ticks")


# ---- by keyboard alone


def focus(page: Page, name: str) -> None:
    """Press Tab until a control with this label has the focus."""
    page.locator(".skip").focus()  # where a page begins
    for _ in range(60):
        page.keyboard.press("Tab")
        label = page.evaluate(
            "() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.labels?.[0]?.textContent"
            " ?? document.activeElement.textContent"
        )
        if (label or "").startswith(name):
            return
    raise AssertionError(f"Tab does not lead to {name}")


def test_the_keyboard_alone_does_what_is_done_most(shown: Page, site: LineageSite) -> None:
    """Search, choose a day, walk along the lineage, open, recover, close, zoom, list, and follow a link.

    Search dims what does not match, and Enter focuses the first that does.
    """
    keys = shown.keyboard
    focus(shown, "Search")
    keys.type("clean")
    expect(shown.locator(".template:not(.dimmed)")).to_have_count(1)
    keys.press("Enter")
    expect(card(shown, "clean")).to_be_focused()
    keys.press("ArrowRight")
    expect(card(shown, "hours")).to_be_focused()
    keys.press("ArrowDown")
    expect(card(shown, "routes")).to_be_focused()
    keys.press("Enter")
    expect(shown.locator(".panel h2")).to_contain_text(DAYS[-1])
    keys.press("Escape")
    expect(shown.locator(".panel")).to_be_hidden()
    expect(card(shown, "routes")).to_be_focused()
    focus(shown, "Partition")
    for _ in range(3):
        keys.press("ArrowLeft")
    expect(shown.locator(".ends .chosen")).to_have_text(f"{BROKEN}: lost")
    focus(shown, "etl/{ds}/routes")
    keys.press("Enter")
    expect(shown.locator(".panel")).to_contain_text(f"etl/{BROKEN}/routes@1")
    focus(shown, "Recover")
    keys.press("Escape")
    focus(shown, "Zoom in")
    before = shown.locator(".world").evaluate("(world) => world.style.transform")
    keys.press("Enter")
    assert shown.locator(".world").evaluate("(world) => world.style.transform") != before
    focus(shown, "Search")
    keys.press("Control+A")
    keys.press("Backspace")
    focus(shown, "As a table")
    keys.press("Enter")
    expect(shown.locator("tbody tr[data-key]")).to_have_count(5)
    focus(shown, "etl/{ds}/hours")
    keys.press("Enter")
    expect(shown.locator(".panel")).to_contain_text(f"etl/{BROKEN}/hours@1")
    focus(shown, f"etl/{BROKEN}/hours")
    keys.press("Enter")
    shown.wait_for_url("**/dataset?path=*")


# ---- form


@pytest.mark.parametrize("page", THEMES, indirect=True)
def test_the_page_is_for_everybody(shown: Page) -> None:
    """Nothing serious for axe: as it opens, with a chain, as a table."""
    assert faults(shown) == []
    shown.locator(".alarm .chip").first.click()
    expect(shown.locator(".template.chain")).to_have_count(1)
    assert faults(shown) == []
    shown.get_by_role("button", name="As a table").click()
    shown.locator("tbody tr[data-key]").first.wait_for()
    assert faults(shown) == []


@pytest.mark.parametrize("width", [1024, 1440, 2560])
def test_the_picture_fills_the_width_and_nothing_more(shown: Page, width: int) -> None:
    """Five layers are readable at any width; the page does not scroll sideways, the panel is no ribbon."""
    shown.set_viewport_size({"width": width, "height": 900})
    shown.reload()
    shown.locator(".template").first.wait_for()
    boxes = [each.bounding_box() for each in shown.locator(".template").all()]
    right = max(box["x"] + box["width"] for box in boxes)
    assert right <= width and min(box["height"] for box in boxes) > 60
    shown.locator(".alarm .chip").first.click()
    panel = shown.locator(".panel")
    panel.locator("h2").wait_for()
    assert panel.bounding_box()["width"] > 300
    assert fits(shown)


def test_no_edge_passes_behind_a_card(shown: Page) -> None:
    """Edges over several layers go beside what stands between."""
    crossed = shown.evaluate(
        """() => {
        const boxes = [...document.querySelectorAll('.template')].map((card) => {
            const {e: x, f: y} = new DOMMatrix(getComputedStyle(card).transform);
            return {x, y, right: x + card.offsetWidth, bottom: y + card.offsetHeight, key: card.dataset.key};
        });
        const edge = document.querySelector('.edge');
        const hits = new Set();
        for (let at = 0; at < edge.getTotalLength(); at += 2) {
            const {x, y} = edge.getPointAtLength(at);
            for (const box of boxes) {
                if (x > box.x + 1 && x < box.right - 1 && y > box.y + 1 && y < box.bottom - 1) hits.add(box.key);
            }
        }
        return [...hits];
    }"""
    )
    assert crossed == []


def test_an_empty_catalog_says_what_to_do(page: Page, platform: Platform) -> None:
    """Not that something failed."""
    LineageSite(platform).open(page)
    expect(page.locator(".empty")).to_contain_text("There are no datasets that you may read.")
    assert faults(page) == []


def test_hostile_names_are_text(page: Page, platform: Platform) -> None:
    """On cards, in the panel, in the table; nothing of them becomes an element."""
    for path in HOSTILE.values():
        make(platform, path, "load", origin=Origin("<b>dag</b>", "run", "task"))
    LineageSite(platform).open(page)
    expect(page.locator(".template")).to_have_count(len(HOSTILE))
    for path in HOSTILE.values():
        page.locator(f'.template[data-key="{path}"] .label').click()
        expect(page.locator(".panel .path")).to_have_text(f"{path}@1")
        address = f"dataset?path={quote_plus(path)}&generation=1"
        expect(page.locator(".panel .path a")).to_have_attribute("href", address)
    assert page.locator("main img, main script, main b").count() == 0 and page.title() != "1"
    assert fits(page)
    page.get_by_role("button", name="As a table").click()
    expect(page.locator("tbody tr[data-key]")).to_have_count(len(HOSTILE))
    assert fits(page)
