"""PostgreSQL goes away and comes back: whoever works on the catalog waits for it, and the queue goes on by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from springline.persistence.errors import CatalogUnavailableError
from springline.persistence.model.dataset import TransferMethod
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.datasets.stages import once, stage
from tests.support.datasets.states import copies_in, events_of, expire_leases
from tests.support.servers.servers import Running


def kill_and_restart(postgres: Running) -> Callable[[], None]:
    """kill -9, and a start in the background."""

    def act() -> None:
        postgres.kill("server")
        threading.Thread(target=postgres.restart_stopped).start()

    return act


def test_whoever_begins_a_transaction_waits_for_a_catalog_that_is_away(
    open_at: Callable[..., Platform], postgres: Running
) -> None:
    """Up to its patience; without any it says at once which server does not answer."""
    patient, hurried = open_at(catalog_timeout=120), open_at(catalog_timeout=0)
    dataset = make(patient, "a", "load")
    postgres.kill("server")
    with pytest.raises(CatalogUnavailableError, match=r"127\.0\.0\.1.* does not answer"):
        hurried.catalog.get(dataset.ref)
    threading.Thread(target=postgres.restart_stopped).start()
    assert patient.catalog.get(dataset.ref) == dataset


# The catalog is asked while the bytes are sent, and for the next time when the copy is published.
@pytest.mark.parametrize("point", ["create", "publish done"])
def test_a_kill_during_a_transfer_loses_nothing_and_the_queue_goes_on(
    open_at: Callable[..., Platform], postgres: Running, point: str
) -> None:
    """Whatever was under way when the catalog went away, each generation is persisted once and nothing half is left."""
    platform = open_at(catalog_timeout=120)
    datasets = [make(platform, path, "load") for path in ("a", "b")]
    stage(platform, once(point, kill_and_restart(postgres), where="/@"))
    for _ in range(5):
        platform.persister.drain()
        expire_leases(platform)
    persisted = platform.catalog.get_all([dataset.ref for dataset in datasets])
    assert all(dataset.persisted for dataset in persisted)
    assert copies_in(platform.under) == sorted(dataset.under_location for dataset in persisted)
    assert all(events_of(platform, dataset.ref).count("copied") == 1 for dataset in datasets)


def test_a_kill_in_the_middle_of_a_claim_claims_once_or_not_at_all(
    open_at: Callable[..., Platform], postgres: Running
) -> None:
    """The claim's transaction is rolled back with the server; the worker claims again by itself."""
    platform = open_at(catalog_timeout=120)
    dataset = make(platform, "a", "load")
    apply, act = platform.catalog.apply, kill_and_restart(postgres)

    def killed(*args: object, **how: object) -> object:
        platform.catalog.apply = apply  # type: ignore[method-assign]
        state = apply(*args, **how)  # type: ignore[arg-type]
        act()
        return state

    platform.catalog.apply = killed  # type: ignore[method-assign, assignment]
    assert platform.persister.step() is None
    summary = platform.persister.drain()
    assert (summary.persisted, summary.remaining) == (1, 0)
    assert events_of(platform, dataset.ref).count("claimed") == 1
    assert platform.catalog.get(dataset.ref).method is TransferMethod.DATA
