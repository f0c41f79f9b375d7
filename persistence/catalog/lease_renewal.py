"""Renews a lease in the background while its holder works, whatever the lease is on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sqlalchemy.exc import OperationalError

from springline.persistence.errors import CatalogUnavailableError


@contextmanager
def renewal(
    renew: Callable[[], bool], every: float, name: str, *, interrupt: Callable[[], None] | None = None
) -> Iterator[threading.Event]:
    """Call `renew` every so many seconds while inside; the event is set once it said no.

    A database that is away for a moment is no answer: `renew` is called again. With `interrupt` the lease is renewed on
    after a no, since what was interrupted takes a while to end; `interrupt` is called each time until it has.
    """
    done, ended = threading.Event(), threading.Event()

    def watch() -> None:
        while not done.wait(every):
            with suppress(OperationalError, CatalogUnavailableError):
                if not renew():
                    ended.set()
            if ended.is_set():
                if interrupt is None:
                    return
                interrupt()

    thread = threading.Thread(target=watch, name=name, daemon=True)
    thread.start()
    try:
        yield ended
    finally:
        done.set()
        thread.join()
