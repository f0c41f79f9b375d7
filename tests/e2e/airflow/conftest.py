"""A whole Airflow with real data beside Spark and Kafka, as a user with code of their own starts it, and a login."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from springline.persistence.model.dataset import Dataset
from springline.services.registry import make_servers
from springline.services.scratch_home import scratch_settings
from springline.services.servers.airflow import USER, password
from springline.services.supervisor import Supervisor
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.testing.lines import LinesRunner
from tests.support.airflow.airflow_pages import DAG, Watched, backfill, framed, trigger, watch
from tests.support.airflow.browser import Complaints, themed
from tests.support.airflow.live_airflow import Live, live_airflow
from tests.support.datasets.coffee_bar import CoffeeBar, coffee_bar
from tests.support.servers.memory_folders import temporary_home
from tests.support.streams.declared_streams import TOPICS, beating, declare, explain_pairs, put_results, serve_slices

FIRST, SECOND = date(2013, 1, 5), date(2013, 1, 6)
OUTPUTS = 13  # datasets that the workflow makes of a day


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """The home of all servers."""
    with temporary_home("springline-e2e-") as folder:
        yield folder


@pytest.fixture(scope="session")
def kafka(home: Path) -> Iterator[str]:
    """The address of a Kafka."""
    settings = scratch_settings(home / "kafka-alone")
    (server,) = make_servers(["kafka"], settings)
    supervisor = Supervisor(settings.home, say=lambda text: None)
    supervisor.up([server], settings.start_timeout)
    yield server.address
    supervisor.down(server.name, 5)


@pytest.fixture(scope="session")
def coffee(home: Path) -> CoffeeBar:
    """A folder of a user's own with operations and a DAG."""
    return coffee_bar(home / "coffee")


@pytest.fixture(scope="session")
def live(home: Path, kafka: str, coffee: CoffeeBar) -> Iterator[Live]:
    """Airflow and Spark Connect with two days landed and streams declared; neither a persister nor a stream runs."""
    declare(home / "streams.toml")
    environment = {
        **coffee.environment,
        "SPRINGLINE_OPERATIONS": f"springline.spark_jobs.etl,{coffee.environment['SPRINGLINE_OPERATIONS']}",
        "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS": kafka,
        "SPRINGLINE_STREAMS_FILE": str(home / "streams.toml"),
    }
    with live_airflow(
        home,
        [FIRST, SECOND],
        dag_ids=(DAG, "persister", "maintenance", "trying", "busy", "coffee_daily"),
        more_dags=Path(__file__).parent / "dags",
        environment=environment,
        runner=lines_runner(),
    ) as airflow:
        yield airflow


@pytest.fixture(scope="session")
def streams(live: Live, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamSettings]:
    """Streams as `kept_streams` makes them, that beat as long as there are tests."""
    settings = StreamSettings(home=live.home, streams_file=live.home / "streams.toml", kafka_bootstrap_servers=kafka)
    with closing(Kafka(settings.cluster)) as log:
        log.create(TOPICS)
        put_results(log)
    serve_slices(settings.declarations, settings.cluster, tmp_path_factory.mktemp("slices"))
    explain_pairs(settings.folder("pairs"), tmp_path_factory.mktemp("pairs"))
    with beating(settings.home):
        yield settings


def lines_runner() -> LinesRunner:
    """Operations for datasets that no DAG makes."""
    lines = LinesRunner()
    lines.add("load", lambda sources, params: [f"line {i}" for i in range(100)], idempotent=False)
    lines.add("shout", lambda sources, params: [line.upper() for line in sources[0]])
    return lines


@pytest.fixture(scope="session")
def session_state(live: Live, browser: Browser) -> dict:
    """What the browser keeps of a login by Airflow's own form."""
    context = themed(browser, "light")
    page = context.new_page()
    page.goto(live.address)
    page.locator("input[name=username]").fill(USER)
    page.locator("input[name=password]").fill(password(live.home))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_test_id("nav-sidebar").wait_for()
    state = context.storage_state()
    context.close()
    return {"cookies": state["cookies"]}


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """Fails the test if the browser complained of one of our pages."""
    listener = Complaints()
    yield listener
    assert listener.messages == []


@pytest.fixture
def context(request: pytest.FixtureRequest, browser: Browser, session_state: dict) -> Iterator[BrowserContext]:
    """A session of the browser of the user that is logged in; a test may choose its theme as a parameter."""
    context = themed(browser, getattr(request, "param", "light"), storage_state=session_state)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, complaints: Complaints) -> Page:
    """A tab in that session."""
    page = context.new_page()
    complaints.listen(page)
    return page


def states_of(live: Live, day: date) -> list[str]:
    """The states of the DAG runs that have made datasets of this day so far; notes the risk, as a persister does."""
    live.platform.catalog.sample_risk()
    datasets = live.platform.catalog.find(prefix=f"etl/{day}/")
    run_ids = {dataset.origin.run_id.partition("#")[0] for dataset in datasets}  # as Airflow knows them
    return [live.api.run_state(DAG, run_id) for run_id in run_ids]


@pytest.fixture(scope="session")
def day(live: Live, browser: Browser, session_state: dict) -> Watched:
    """A DAG run of the first day, started in one tab with the lineage open in another."""
    context = themed(browser, "light", storage_state=session_state)
    lineage = context.new_page()
    lineage.goto(f"{live.address}/plugin/springline-lineage")
    frame = framed(lineage, "Lineage")
    form = context.new_page()
    trigger(form, live.address, FIRST)
    form.close()  # Airflow's page would draw each change of the run too
    watched = watch(frame, lambda: states_of(live, FIRST), most=OUTPUTS)
    context.close()
    return watched


@pytest.fixture(scope="session")
def persisted(live: Live, day: Watched) -> list[Dataset]:
    """Everything of the first day, in the under-store too."""
    live.platform.persister.drain(timeout=60)
    return live.platform.catalog.find(prefix=f"etl/{FIRST}/", superseded=False)


def lose(live: Live, path: str) -> Dataset:
    """Delete the copy in the cache, and have the platform notice."""
    dataset = live.platform.catalog.resolve(path)
    live.platform.cache.delete(dataset.cache_location)
    live.platform.maintenance.scan()
    return dataset


@pytest.fixture(scope="session")
def lost(live: Live, persisted: list[Dataset]) -> Dataset:
    """A persisted dataset whose copy in the cache is gone, and the platform has noticed."""
    return lose(live, f"etl/{FIRST}/clean")


@pytest.fixture(scope="session")
def backfilled(live: Live, lost: Dataset, browser: Browser, session_state: dict) -> Watched:
    """A backfill of the second day, started in one tab with the DAG's own view of its lineage open in another."""
    context = themed(browser, "dark", storage_state=session_state)
    tab = context.new_page()
    tab.goto(f"{live.address}/dags/{DAG}")
    tab.get_by_role("link", name="Lineage", exact=True).click()
    frame = framed(tab, "Lineage")
    form = context.new_page()
    backfill(form, live.address, SECOND, SECOND)
    form.close()
    watched = watch(frame, lambda: states_of(live, SECOND), most=2 * OUTPUTS)
    context.close()
    return watched


@pytest.fixture(scope="session")
def lost_dataset(live: Live, backfilled: Watched) -> Dataset:
    """A dataset of the second day that was lost before it was persisted."""
    return lose(live, f"etl/{SECOND}/hours")
