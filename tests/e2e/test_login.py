"""A login at Airflow that ends while one of our pages is open, and the way back to it."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from springline.services.servers.airflow import USER, password
from tests.support.airflow.airflow_pages import framed, opened


def test_a_login_that_ends_leads_to_a_new_one_and_back_to_the_same_page(live, context):
    """With its query; the browser complains of the refused requests, and may."""
    page = context.new_page()
    opened(page, live.address, "dataset", "?path=etl/nothing")
    context.clear_cookies()
    page.wait_for_url(re.compile("/auth/"))
    page.locator("input[name=username]").fill(USER)
    page.locator("input[name=password]").fill(password(live.home))
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(re.compile("/plugin/springline-dataset"))
    expect(framed(page, "Dataset").get_by_label("Path")).to_have_value("etl/nothing")
