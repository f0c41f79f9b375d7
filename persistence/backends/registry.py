"""Opens the store at a URI of the settings: its scheme selects the installed package that does so.

A package adds a kind of store by an entry point of the group `springline.stores`, named by the scheme. It refers to
an opener, a function from a `StoreRequest` to a `Backend`, which is an `UnderStore` in the role of one:

    [project.entry-points."springline.stores"]
    sqlite = "springline_sqlite.store:open_store"

Springline's own kinds are entry points too; a kind is imported only when a URI needs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, overload
from urllib.parse import SplitResult, parse_qsl, unquote_to_bytes

from springline.persistence.backends.bandwidth_limit import Link
from springline.persistence.backends.root_mark import never_in_use
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.errors import UsageError
from springline.persistence.extensions import STORES
from springline.persistence.settings import Settings, parse_store_uri

Role = Literal["cache", "under"]


@dataclass(frozen=True)
class StoreRequest:
    """The arguments of an opener: the URI of a store, its role, and the settings for it.

    Args:
        uri: the URI, split, without its query; `uri.geturl()` is the whole.
        role: "cache", where jobs write and read, or "under", where persisted copies are.
        settings: the settings of the platform; those for one kind of store are used by that kind only.
        options: strings by name: from the query of the URI and, with precedence, from `cache_options` or
            `under_options`, where secrets belong.
        link: limits the bandwidth of an under-store, see `limit_bandwidth`; None: no limit.
        capacity: capacity of an under-store in bytes; 0: no limit. A write beyond it is to raise `StorageFullError`.
        in_use: whether the catalog names copies in an under-store: then a root without a mark is the wrong folder, see
            `persistence/backends/root_mark.py`.

    Example:
        The entry point `sqlite` of a package leads to:

        ```python
        def open_sqlite(request: StoreRequest) -> SqliteBackend:
            return SqliteBackend(Path(request.path), request.link, capacity=request.capacity, in_use=request.in_use)
        ```

    An opener does not contact the server: an unavailable store does not prevent opening the platform. It raises
    `UsageError` for a request that can never work, and any other error of a store.
    """

    uri: SplitResult
    role: Role
    settings: Settings
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    link: Link | None = None
    capacity: int = 0
    in_use: Callable[[], bool] = never_in_use

    @property
    def name(self) -> str:
        """The setting and the URI, for errors."""
        return f"{self.role}_uri '{self.uri.scheme}://{self.uri.netloc}{self.uri.path}'"

    @property
    def path(self) -> str:
        """The path of the URI, decoded."""
        return os.fsdecode(unquote_to_bytes(self.uri.path))

    def require(self, condition: object, form: str) -> None:
        """Raise `UsageError` unless `condition`, that the opener supports the URI in that role, is true.

        `form` says what to give instead.
        """
        if not condition:
            raise UsageError(f"{self.name}: not supported by the {self.uri.scheme} store; give {form}")

    def require_options(self, *allowed: str) -> None:
        """Raise `UsageError` if there is an option not in `allowed`."""
        for name in sorted(set(self.options) - set(allowed)):
            allowed_text = f"its options: {', '.join(allowed)}" if allowed else "it has no options"
            raise UsageError(f"{self.name}: a store of this kind has no option {name!r}; {allowed_text}")


@overload
def open_backend(
    uri: str, role: Literal["under"], settings: Settings, *, in_use: Callable[[], bool] = never_in_use
) -> UnderStore: ...


@overload
def open_backend(uri: str, role: Role, settings: Settings, *, in_use: Callable[[], bool] = never_in_use) -> Backend: ...


def open_backend(uri: str, role: Role, settings: Settings, *, in_use: Callable[[], bool] = never_in_use) -> Backend:
    """Open the store at `uri` for a role, "cache" or "under"; raises `PersistenceError` if no package supports it.

    A missing folder is created unless it is `in_use`: then its disk is not mounted, and using it fails. So does
    an under-store in use whose root has no mark; see `persistence/backends/root_mark.py`.
    """
    try:
        parts = parse_store_uri(uri)
    except ValueError as error:
        raise UsageError(f"{role}_uri: {error}") from None
    query = parse_qsl(parts.query, keep_blank_values=True)
    if len(dict(query)) < len(query):
        raise UsageError(f"{role}_uri: an option in its query is given more than once, and only one would be read")
    secret_options = settings.under_options if role == "under" else settings.cache_options
    secrets = {name: option.get_secret_value() for name, option in secret_options.items()}
    request = StoreRequest(
        parts._replace(query="", fragment=""), role, settings,
        {**dict(query), **secrets},
        Link(settings.under_bandwidth, settings.home / "link.state") if role == "under" else None,
        settings.under_capacity if role == "under" else 0,
        in_use,
    )  # fmt: skip
    backend = STORES.call(parts.scheme, request, request.name)
    if not isinstance(backend, UnderStore if role == "under" else Backend):
        expected = "an UnderStore" if role == "under" else "a Backend"
        raise UsageError(
            f"{request.name}: the opener of {parts.scheme!r} returned {type(backend).__name__} instead of {expected}"
        )
    return backend
