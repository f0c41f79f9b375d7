"""The settings of persistence: one line of help each, read from the environment as SPRINGLINE_<NAME>."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import BeforeValidator, Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from springline.persistence.errors import ExtensionError, UsageError
from springline.persistence.extensions import POLICIES, STORES
from springline.persistence.profile import Bandwidth, Bytes, JsonObject, ProfiledSettings, SecretObject

if TYPE_CHECKING:
    from sqlalchemy import URL


def _parse_weights(value: object) -> object:
    """Parse numbers separated by commas, with or without brackets; other types are returned unchanged."""
    if not isinstance(value, str):
        return value
    try:
        numbers = tuple(float(each) for each in value.strip().strip("[]()").split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != 4:
        raise ValueError("write four numbers separated by commas, such as -4,-2,1,0.1")
    return numbers


def parse_store_uri(text: str) -> SplitResult:
    """Split the URI of a store; an absolute path is a folder of that name, whatever its characters.

    Raises `ValueError` for a text of which a part would be ignored, or that is not a URI.
    """
    if text.startswith("/"):
        text = Path(text).as_uri()
    parts = urlsplit(text)
    if not parts.scheme:
        raise ValueError(
            f"it is not a URI; give an absolute folder, or a URI of an installed kind of store: {STORES.format_names()}"
        )
    if "#" in text or text.endswith("?"):
        raise ValueError("it is ignored from its # or ? on: write %23 or %3F in a URI, or give an absolute folder")
    if not text.isprintable() or text != text.strip():
        raise ValueError("it has characters that would be ignored: write them as %0A, %20 and so on, or remove them")
    return parts


def parse_database_url(text: str, home: Path, *, name: str) -> URL:
    """Parse the SQLAlchemy URL of a database, with `home` for {home} in its path and in its options.

    Raises `UsageError` with `name`, what gave the URL; it may contain a password, so it is not repeated.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
        if "@" in (url.host or ""):  # the driver's error would contain the part of the password before it
            raise ValueError("the password is not encoded")
        url.get_dialect()
    except (ArgumentError, ValueError):
        raise UsageError(
            f"{name} is not a database URL: write postgresql+psycopg://user:password@host:port/database, with "
            "%40 for an @ in the password"
        ) from None

    def fill(value: str) -> str:
        return value.replace("{home}", str(home))

    options = {key: fill(each) if isinstance(each, str) else tuple(map(fill, each)) for key, each in url.query.items()}
    return url.set(database=fill(url.database) if url.database else url.database, query=options)


class Settings(ProfiledSettings):
    """Where datasets are stored and how they are persisted.

    Each is read from `SPRINGLINE_<NAME>`, else from the profile, unless it is given: sizes in bytes, times in seconds.
    docs/settings.md lists them all.

    Raises:
        SettingsError: names the invalid settings and the reasons in one line.

    Example:
        >>> Settings(home=folder, cache_capacity="8GB").cache_capacity
        8000000000
    """

    catalog_url: str = Field(
        "", description="SQLAlchemy URL of the catalog, with {home} for the home folder; empty: SQLite in that folder"
    )
    catalog_timeout: float = Field(60, ge=0, description="Seconds to wait for an unavailable catalog")
    cache_uri: str = Field(
        "", description="Folder or URI of the cache; empty: a separate folder for each home in /dev/shm"
    )
    cache_capacity: Bytes = Field(
        4 << 30, gt=0, description="Capacity of the cache in bytes; at most the space of its disk"
    )
    under_uri: str = Field("", description="Folder or URI of the under-store; empty: under/ in the home folder")
    under_bandwidth: Bandwidth = Field(
        0, ge=0, description="Bandwidth to and from the under-store in bytes/s; 0: no limit"
    )
    under_capacity: Bytes = Field(0, ge=0, description="Capacity of the under-store in bytes; 0: the size of its disk")
    cache_options: SecretObject = Field({}, description="Store-specific options of the cache, as a JSON object")
    under_options: SecretObject = Field({}, description="Store-specific options of the under-store, as a JSON object")
    tables: JsonObject = Field(
        {},
        description="Tables that get persisted datasets, as a JSON object: path templates and delta:URI or "
        "iceberg:CATALOG.NAMESPACE.TABLE",
    )
    table_options: SecretObject = Field({}, description="Options with which Delta tables are opened, as a JSON object")
    hdfs_http: str = Field(
        "",
        description="WebHDFS addresses, for checksums; separated by `;` for several NameNodes; empty: http://HOST:9870",
    )
    hdfs_user: str = Field("", description="HDFS user; empty: the user of this process")
    hdfs_token: SecretStr = Field(SecretStr(""), description="Delegation token for WebHDFS, instead of a user")
    alluxio_proxy: str = Field(
        "", description="Addresses of Alluxio's proxies, separated by `;`; empty: http://HOST:39999"
    )
    ca_bundle: str = Field("", description="File of certificates for https to HDFS and Alluxio; empty: the system's")
    persist_bandwidth: Bandwidth = Field(
        0, ge=0, description="Bandwidth limit of one persister in bytes/s; 0: no limit"
    )
    policy: str = Field("value-density", description="Policy that orders the queue")
    policy_weights: Annotated[tuple[float, float, float, float], NoDecode, BeforeValidator(_parse_weights)] = Field(
        (-4.0, -2.0, 1.0, 0.1), description="a, b, c, d of the paper's priority; a, b < 0 < c, d"
    )
    sync_unproven: bool = Field(
        False, description="Under async_and_sync, also persist datasets of unproven operations before commit"
    )
    prove: bool = Field(True, description="Whether idle persisters prove operations by running them a second time")
    prove_bytes: Bytes = Field(1 << 20, ge=0, description="Operations with an output of at least this size are proven")
    prove_seconds: float = Field(10, ge=0, description="Operations with a run of at least this many seconds are proven")
    min_operation_bytes: Bytes = Field(
        1 << 20, ge=0, description="Datasets up to this size are always persisted as data"
    )
    lease_seconds: float = Field(
        30, gt=0, description="Lease of a persister's claim (s); a persister that does not renew it loses the claim"
    )
    retry_seconds: float = Field(
        5, ge=0, description="Delay after a failed transfer (s); doubles with each failure, up to a minute"
    )
    sync_timeout: float = Field(300, ge=0, description="Seconds for which a synchronous write retries")
    reader_lease_seconds: float = Field(
        6 * 3600, gt=0, description="Lease of a read lock (s); older read locks are ignored"
    )
    keep_generations: int = Field(1, ge=1, description="Number of committed generations of a path that are not retired")
    mean_fault_seconds: float = Field(7 * 86400, gt=0, description="Mean time between losses of the cache")
    cache_replacement: str = Field("lru", pattern="^(lru|lrfu)$", description="Eviction order: lru or lrfu")
    runner: str = Field("", description="Runner that re-runs operations, as module:factory; empty: none")

    @property
    def catalog_address(self) -> URL:
        """The SQLAlchemy URL of the catalog; raises `UsageError` if it is none."""
        from sqlalchemy import URL

        if not self.catalog_url:
            return URL.create("sqlite", database=str(self.home / "catalog.db"))
        name = "SPRINGLINE_CATALOG_URL, or the connection of the catalog,"
        return parse_database_url(self.catalog_url, self.home, name=name)

    @property
    def under_address(self) -> str:
        """The URI of the under-store."""
        return self.under_uri or (self.home / "under").as_uri()

    def options_beside_under(self, uri: str, options: Mapping[str, SecretStr]) -> dict[str, str]:
        """Return the options for what is at `uri`: those given, else the under-store's if its scheme is the same.

        Example:
            >>> settings = Settings(home=folder, under_uri="s3://lake/under?region=eu-west-1")
            >>> settings.options_beside_under("s3://lake/landing", {})
            {'region': 'eu-west-1'}
        """
        under = urlsplit(self.under_address)
        if not options and under.scheme == urlsplit(uri).scheme != "file":
            secrets = {name: value.get_secret_value() for name, value in self.under_options.items()}
            return {**dict(parse_qsl(under.query, keep_blank_values=True)), **secrets}
        return {name: value.get_secret_value() for name, value in options.items()}

    @field_validator("cache_uri", "under_uri")
    @classmethod
    def _check_store_uri(cls, value: str) -> str:
        if value:
            parse_store_uri(value)
        return Path(value).as_uri() if value.startswith("/") else value

    @field_validator("policy")
    @classmethod
    def _check_policy(cls, value: str) -> str:
        try:
            return POLICIES.check(value)
        except ExtensionError as error:
            raise ValueError(str(error)) from error

    @classmethod
    def help_of(cls, name: str) -> str:
        """Return the description of a setting in one line; for the policy, with the installed ones."""
        description = super().help_of(name)
        return f"{description}: {POLICIES.format_names()}" if name == "policy" else description

    @field_validator("policy_weights")
    @classmethod
    def _check_weight_signs(cls, value: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        a, b, c, d = value
        if not (a < 0 and b < 0 and c > 0 and d > 0):
            raise ValueError(f"weights {value}: a and b must be below 0, c and d above")
        return value
