"""Opens the store that a URI of the settings names: its scheme says which installed package does that.

A package adds a kind of store by an entry point of the group `springline.stores`, named by the scheme. It names an
opener, a function from a `StoreRequest` to a `Backend`:

    [project.entry-points."springline.stores"]
    sqlite = "springline_sqlite.store:open_store"

Springline's own kinds are entry points too; nothing of a kind is imported before a URI asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, urlsplit

from springline.persistence.backends.bandwidth_limit import Link
from springline.persistence.backends.root_mark import never
from springline.persistence.backends.spec import Backend
from springline.persistence.errors import UsageError
from springline.persistence.extensions import STORES
from springline.persistence.settings import Settings

Role = Literal["cache", "under"]


@dataclass(frozen=True)
class StoreRequest:
    """What an opener is asked for: the store at a URI, in a role, with what the settings say about it.

    Args:
        uri: the URI, split, without its query; `uri.geturl()` is the whole.
        role: "cache", where jobs write and read, or "under", where persisted copies are.
        settings: the settings of the platform; those of one kind of store are the business of that kind.
        options: texts by name: what stands in the query of the URI and, before that, in `cache_options` or
            `under_options`, where secrets belong.
        link: limits the bandwidth of an under-store, see `limit_bandwidth`; None: nothing is limited.
        capacity: bytes that an under-store may hold; 0: no limit. A write beyond it is to raise `StorageFullError`.
        in_use: whether the catalog knows of copies in an under-store: then a root without a mark is another one's, see
            `persistence/backends/root_mark.py`.

    Example:
        The entry point `sqlite` of a package leads to:

        ```python
        def open_sqlite(request: StoreRequest) -> SqliteBackend:
            return SqliteBackend(Path(request.uri.path), request.link, capacity=request.capacity, in_use=request.in_use)
        ```

    An opener does not ask the server: a store that is away stops nobody from opening the platform. It raises
    `UsageError` for what can never do, and whatever else a store raises.
    """

    uri: SplitResult
    role: Role
    settings: Settings
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    link: Link | None = None
    capacity: int = 0
    in_use: Callable[[], bool] = never

    @property
    def name(self) -> str:
        """The setting and the URI, for errors."""
        return f"{self.role}_uri '{self.uri.scheme}://{self.uri.netloc}{self.uri.path}'"

    def require(self, condition: object, form: str) -> None:
        """Raise `UsageError` unless the URI is what the opener serves in that role.

        `form` says what to give instead.
        """
        if not condition:
            raise UsageError(f"{self.name}: no {self.uri.scheme} store serves this; give {form}")

    def require_options(self, *known: str) -> None:
        """Raise `UsageError` if there is an option that the opener does not know."""
        for name in sorted(set(self.options) - set(known)):
            there = f"there are {', '.join(known)}" if known else "it has none"
            raise UsageError(f"{self.name}: a store of this kind has no option {name!r}; {there}")


def open_backend(uri: str, role: Role, settings: Settings, *, in_use: Callable[[], bool] = never) -> Backend:
    """The store at `uri` for a role, "cache" or "under"; raises `PersistenceError` if none serves it.

    A folder that is not there is made, unless it is `in_use`: then its disk is not mounted, and using it fails. So does
    an under-store in use whose root has not its mark; see `persistence/backends/root_mark.py`.
    """
    parts = urlsplit(uri)
    secret = settings.under_options if role == "under" else settings.cache_options
    request = StoreRequest(
        parts._replace(query="", fragment=""), role, settings,
        {**dict(parse_qsl(parts.query)), **{name: option.get_secret_value() for name, option in secret.items()}},
        Link(settings.under_bandwidth, settings.home / "link.state") if role == "under" else None,
        settings.under_capacity if role == "under" else 0,
        in_use,
    )  # fmt: skip
    if not parts.scheme:
        kinds = STORES.say_names()
        raise UsageError(
            f"{role}_uri {uri!r} is no URI; give file:///an/absolute/folder, or one of another kind: {kinds}"
        )
    backend = STORES.call(parts.scheme, request, request.name)
    if not isinstance(backend, Backend):
        raise UsageError(
            f"{request.name}: the opener of {parts.scheme!r} returned {type(backend).__name__}, not a Backend"
        )
    return backend
