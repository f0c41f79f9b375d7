"""Charts over time: round ticks, gaps, the marked point, the values that one points at, and the texts beside them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.airflow.browser import THEMES, faults
from tests.support.airflow.page_files import SITE

NOON = 1_795_694_400  # 2026-11-26 12:00:00 UTC
MODULES = """const load = (name) => import(`/pages/static/${name}.js`);
    const {plot} = await load("plot"), {morph} = await load("morph"), format = await load("format");
    const {linePath, areaPath, gapBands, segmentsOf, sparkline} = await load("curves");
    const {niceTicks, timeTicks, tickText} = await load("ticks");
    const {h, s, timeElement} = await load("elements");
    const main = document.getElementById("main");"""


@pytest.fixture
def page(alone) -> Page:
    """An empty page."""
    page, _ = alone
    page.route(f"{SITE}/api/v1/**", lambda route: None)
    page.add_init_script("localStorage.timezone ??= '\"UTC\"'")
    page.goto(f"{SITE}/pages/risk")
    page.evaluate("() => { const main = document.getElementById('main'); main.replaceChildren(); }")
    return page


def run(page: Page, code: str, **arguments: object):
    """What a piece of code with our modules returns."""
    return page.evaluate(f"async (given) => {{ {MODULES} {code} }}", arguments)


CHART = """
    globalThis.shownChart = (most) => {
        const points = [[given.noon, 10], [given.noon + 60, most], [given.noon + 120, null], [given.noon + 180, 20]];
        const segments = segmentsOf(points);
        return plot({first: given.noon, last: given.noon + 600, most, formatValue: format.formatBytes,
            formatPlace: format.formatTime, description: "bytes over time",
            mark: {at: given.noon + 60, value: most, label: "worst"},
            places: points.filter(([, value]) => value !== null).map(([at]) => at),
            readout: (at) => `${format.formatClock(at)}: ${points.find((each) => each[0] === at)[1]} B`},
            (x, y, ground) => [gapBands(segments, x, ground),
                s("path", {class: "line series-0", d: linePath(segments, x, y)})]);
    };
    morph(main, h("figure", {}, globalThis.shownChart(given.most)));"""


def draw(page: Page, most: int = 90) -> None:
    """A chart with a gap and a marked point; drawn again, it is the same element."""
    run(page, CHART, noon=NOON, most=most)


def test_values_and_times_have_round_ticks(page):
    """From at most the least to at least the greatest; of times, minutes, hours and days, which are named at first."""
    for least, most, ticks in (
        (0, 90, [0, 50, 100]), (0, 100, [0, 50, 100]), (0, 231_000, [0, 100_000, 200_000, 300_000]),
        (-3, 4, [-4, -2, 0, 2, 4]), (0, 0.0013, [0, 0.0005, 0.001, 0.0015]), (7, 7, [7]),
    ):  # fmt: skip
        assert run(page, "return niceTicks(given.least, given.most)", least=least, most=most) == ticks
    code = """const ticks = timeTicks(given.first, given.last);
        return ticks.map((at) => tickText(at, ticks[1] - ticks[0]));"""
    for seconds, texts in (
        (25, ["12:00:00", "12:00:05", "12:00:10", "12:00:15", "12:00:20", "12:00:25"]),
        (3600, ["12:00", "12:10", "12:20", "12:30", "12:40", "12:50", "13:00"]),
        (86_400, ["12:00", "18:00", "Nov 27", "06:00", "12:00"]),
        (5 * 86_400, ["Nov 27", "Nov 28", "Nov 29", "Nov 30", "Dec 1"]),
    ):
        assert run(page, code, first=NOON, last=NOON + seconds) == texts


def test_days_begin_in_the_zone_that_the_reader_chose_in_airflow(page):
    """As on Airflow's own pages."""
    page.evaluate("localStorage.setItem('timezone', '\"Asia/Kolkata\"')")
    page.reload()
    assert run(page, "return format.formatTime(given.noon)", noon=NOON) == "2026-11-26 17:30:00"
    code = "return timeTicks(given.noon, given.noon + 86400).map((at) => tickText(at, 1))"
    ticks = run(page, code, noon=NOON)
    assert ticks == ["18:00:00", "Nov 27", "06:00:00", "12:00:00"]


def test_what_is_not_known_is_a_gap(page):
    """A value that is missing, and a time without samples; it is drawn as a band, not as a line, nor as nothing."""
    code = "return segmentsOf([[0, 1], [1, 2], [2, null], [3, 4], [9, 5]], 2)"
    assert run(page, code) == [[[0, 1], [1, 2]], [[3, 4]], [[9, 5]]]
    code = """const same = (value) => value;
        const steps = linePath([[[0, 1], [1, 2]], [[3, 4]]], same, same, {step: true});
        return [steps, areaPath([[[0, 1], [1, 2]]], same, same)];"""
    assert run(page, code) == ["M0 1 H1 V2 M3 4 h0.1", "M0 1 L1 2 V0 H0 Z"]
    draw(page)
    expect(page.locator("rect.gap")).to_have_count(1)
    expect(page.locator("path.series-0")).to_have_attribute("d", re.compile(r"^M\S+ \S+ L\S+ \S+ M\S+ \S+ h0.1$"))


def test_a_few_lines_are_drawn_where_there_are_many(page):
    """Those with the greatest values, each in the order of time; the others are counted."""
    rows = [{"window_end": end, "k": f"k{key}", "n": key * end} for end in (2, 1) for key in range(9)]
    chart = run(page, "return (await load('series')).linesOf(given.rows, 'n', ['k'])", rows=rows)
    assert [line["name"] for line in chart["lines"]] == ["k8", "k7", "k6", "k5", "k4", "k3"]
    assert chart["lines"][0]["points"] == [[1, 8], [2, 16]] and chart["more"] == 3


def test_a_chart_has_the_width_of_its_place_and_never_scales_its_text(page):
    """At any width."""
    draw(page)
    for width in (1024, 2560, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        chart = page.locator(".plot > svg")
        expect(chart).to_have_attribute("width", str(page.locator("main").evaluate("(main) => main.clientWidth - 24")))
        assert chart.evaluate("(svg) => svg.getBoundingClientRect().width === Number(svg.getAttribute('width'))")
        assert page.locator("text.mark").evaluate("(text) => getComputedStyle(text).fontSize") == "12px"


def test_the_values_at_a_time_are_read_by_pointer_and_by_keyboard(page):
    """Screen readers get the chart's text politely."""
    draw(page)
    readout = page.locator(".readout[aria-live=polite]")
    expect(readout).to_be_empty()
    page.locator(".plot").focus()
    for key, text in {"ArrowRight": "12:00:00: 10 B", "End": "12:03:00: 20 B", "ArrowLeft": "12:01:00: 90 B"}.items():
        page.keyboard.press(key)
        expect(readout).to_have_text(text)
    expect(page.locator(".crosshair")).to_have_count(1)
    page.locator(".plot > svg").hover(position={"x": 75, "y": 50})
    expect(readout).to_have_text("12:00:00: 10 B")
    page.mouse.move(0, 0)
    expect(readout).to_be_empty()


def test_a_chart_that_is_updated_stays_the_element_that_it_is(page):
    """With the moment that one points at, and with the new values."""
    draw(page, 90)
    page.locator(".plot").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    draw(page, 250)
    expect(page.locator(".readout")).to_have_text("12:01:00: 250 B")
    expect(page.locator(".plot")).to_be_focused()
    expect(page.locator(".plot")).to_have_count(1)


@pytest.mark.parametrize("theme", THEMES)
def test_charts_are_for_everybody(page, theme):
    """A small one too."""
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    draw(page)
    run(page, "main.append(sparkline([[0, 1], [1, null], [2, 5]], {description: 'lag: 5 messages now'}))")
    expect(page.get_by_role("img", name="lag: 5 messages now")).to_be_visible()
    assert faults(page) == []


def test_times_ages_and_rates_are_short(page):
    """The time of day for today, the day for others, all of it when asked; ages are rounded, rates have units."""
    code = "return given.times.map((at) => format.shortTime(at, given.now))"
    times = [NOON, NOON - 86_400, NOON - 400 * 86_400]
    assert run(page, code, times=times, now=NOON + 60) == ["12:00:00", "Nov 25, 12:00", "Oct 22, 2025"]
    run(page, "main.append(timeElement(given.noon))", noon=NOON)
    time = page.locator("time")
    expect(time).to_have_attribute("datetime", "2026-11-26T12:00:00.000Z")
    expect(time).to_have_attribute("title", "2026-11-26 12:00:00")
    texts = {0: "just now", 40: "40 s ago", 200: "3 min ago", 18_000: "5 h ago", 1_036_800: "12 days ago"}
    code = "return given.ages.map((age) => format.formatAge(given.at, given.at + age))"
    assert run(page, code, at=NOON, ages=list(texts)) == list(texts.values())
    code = "return given.rates.map((rate) => format.formatRate(...rate))"
    texts = run(page, code, rates=[[1.2e6], [4810.4, "rows"], [0.25, "rows"], [None]])
    assert texts == ["1.2 MB/s", "4,810 rows/s", "0.25 rows/s", ""]
