"""The settings of persistence: one line of help each, read from the environment as SPRINGLINE_<NAME>."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from springline.persistence.errors import ExtensionError
from springline.persistence.extensions import POLICIES
from springline.persistence.profile import Bandwidth, Bytes, ProfiledSettings, SecretObject


def _parse_weights(value: object) -> object:
    """Parse numbers separated by commas, with or without brackets; other types are returned unchanged."""
    if not isinstance(value, str):
        return value
    try:
        numbers = tuple(float(each) for each in value.strip().strip("[]()").split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != 4:
        raise ValueError("write four numbers with commas between, such as -4,-2,1,0.1")
    return numbers


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
        "", description="SQLAlchemy URL of the catalog, {home} in it is the home folder; empty: SQLite in that folder"
    )
    catalog_timeout: float = Field(60, ge=0, description="Seconds that a process waits for a catalog that is away")
    cache_uri: str = Field("", description="Where the cache is; empty: a folder of this home's own in /dev/shm")
    cache_capacity: Bytes = Field(4 << 30, gt=0, description="Bytes that the cache may hold")
    under_uri: str = Field("", description="Where the under-store is; empty: under/ in the home folder")
    under_bandwidth: Bandwidth = Field(0, ge=0, description="Bytes a second to and from the under-store; 0: no limit")
    under_capacity: Bytes = Field(0, ge=0, description="Bytes that the under-store may hold; 0: what its disk has")
    cache_options: SecretObject = Field({}, description="Options of the cache's kind of store, as a JSON object")
    under_options: SecretObject = Field({}, description="Options of the under-store's kind of store, as a JSON object")
    hdfs_http: str = Field("", description="WebHDFS, `;` between several NameNodes; empty: http://HOST:9870")
    hdfs_user: str = Field("", description="User at HDFS; empty: the user of this process")
    hdfs_token: SecretStr = Field(SecretStr(""), description="Delegation token for WebHDFS, instead of a user")
    alluxio_proxy: str = Field("", description="Alluxio's proxy, `;` between several; empty: http://HOST:39999")
    ca_bundle: str = Field("", description="File of certificates for https to HDFS and Alluxio; empty: the system's")
    persist_bandwidth: Bandwidth = Field(0, ge=0, description="Bytes a second that one persister may send; 0: no limit")
    policy: str = Field("value-density", description="Order of persisting, by the name of an installed policy")
    policy_weights: Annotated[tuple[float, float, float, float], NoDecode, BeforeValidator(_parse_weights)] = Field(
        (-4.0, -2.0, 1.0, 0.1), description="a, b, c, d of the paper's priority; a, b < 0 < c, d"
    )
    sync_unproven: bool = Field(
        False, description="Under async_and_sync, what only unproven operations could make again is written first, too"
    )
    prove: bool = Field(
        True, description="Whether idle persisters run operations a second time that are only declared idempotent"
    )
    prove_bytes: Bytes = Field(1 << 20, ge=0, description="From this size of one output on an operation is proven")
    prove_seconds: float = Field(
        10, ge=0, description="From so many seconds to make one output on an operation is proven"
    )
    min_operation_bytes: Bytes = Field(1 << 20, ge=0, description="Up to this size data is sent, never the operation")
    lease_seconds: float = Field(30, gt=0, description="A persister that is silent for so long loses its claim")
    retry_seconds: float = Field(5, ge=0, description="Pause after a failed transfer; doubles up to a minute")
    sync_timeout: float = Field(300, ge=0, description="Seconds that a synchronous write goes on trying")
    reader_lease_seconds: float = Field(
        6 * 3600, gt=0, description="A reader that has not let go by then holds nothing back"
    )
    keep_generations: int = Field(1, ge=1, description="Committed generations of a path that are kept")
    mean_fault_seconds: float = Field(7 * 86400, gt=0, description="Mean time between losses of the cache")
    cache_replacement: str = Field("lru", pattern="^(lru|lrfu)$", description="Order of leaving the cache: lru or lrfu")
    runner: str = Field("", description="module:factory of what runs operations again; empty: none")

    @property
    def catalog_address(self) -> str:
        """The SQLAlchemy URL of the catalog."""
        return self.catalog_url.replace("{home}", str(self.home)) or f"sqlite:///{self.home / 'catalog.db'}"

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
