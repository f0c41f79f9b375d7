"""Renews any kind of lease in the background while its holder works."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sqlalchemy.exc import OperationalError

from springline.persistence.errors import CatalogUnavailableError


@contextmanager
def renewal(
    renew: Callable[[], bool], interval: float, name: str, *, interrupt: Callable[[], None] | None = None
) -> Iterator[threading.Event]:
    """Call `renew` every `interval` seconds inside the block; the event is set once it returns False.

    An unavailable database does not count as False: `renew` is called again. With `interrupt` the renewal continues
    after a False, since an interrupted run takes a while to end; `interrupt` is called each time until the block ends.
    """
    stopped, lease_lost = threading.Event(), threading.Event()

    def renew_periodically() -> None:
        while not stopped.wait(interval):
            with suppress(OperationalError, CatalogUnavailableError):
                if not renew():
                    lease_lost.set()
            if lease_lost.is_set():
                if interrupt is None:
                    return
                interrupt()

    thread = threading.Thread(target=renew_periodically, name=name, daemon=True)
    thread.start()
    try:
        yield lease_lost
    finally:
        stopped.set()
        thread.join()
