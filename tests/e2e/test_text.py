"""Names are text, whatever they hold: pages show them, and do nothing else with them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from springline.persistence.model.dataset import Origin
from springline.testing.lines import make_dataset as make
from tests.support.airflow.airflow_pages import opened

HOSTILE = {
    "html": "e2e/names/<img src=x onerror=alert(1)>",
    "script": "e2e/names/<script>document.title=1</script>",
    "quotes": """e2e/names/"'`&quot;><b onclick='x'>""",
    "query": "e2e/names/a&path=etl#frag%2F+b",
    "long": "e2e/names/" + "/".join(["very-long-name-" * 13] * 3),
    "rtl": "e2e/names/مجموعة بيانات/עברית",
}


@pytest.fixture(scope="module", autouse=True)
def named(live) -> None:
    """Datasets with such names, each made of the one before."""
    before: list[str] = []
    for path in HOSTILE.values():
        make(live.platform, path, "shout" if before else "load", before, origin=Origin("etl_lineage", path[:40], path))
        before = [path]


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_name_is_shown_as_text_on_every_page(page, live, what):
    """Nothing of it becomes an element, and links lead to the dataset itself."""
    path = HOSTILE[what]
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    frame = opened(page, live.address, "lineage", "?prefix=e2e/names/")
    expect(frame.locator(".template")).to_have_count(len(HOSTILE))
    keys = frame.locator(".template").evaluate_all("(cards) => cards.map((card) => card.dataset.key)")
    frame.locator(".template").nth(keys.index(path)).locator(".label").click()
    frame.locator(".panel .path a").filter(has_text=path).click()
    frame.wait_for_url("**/dataset?*")
    expect(frame.locator("h2.name")).to_contain_text(f"{path}@1")
    assert page.title() != "1" and frame.locator("main img, main script, main b").count() == 0
    for name in ("queue", "risk"):
        frame = opened(page, live.address, name)
        expect(frame.locator("tbody tr[data-key] a").filter(has_text=path).first).to_be_visible()
        assert frame.locator("main img, main script, main b").count() == 0
    assert asked == []
