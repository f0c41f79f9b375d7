"""The errors that public names raise; each says what failed, where, and what to do next.

Every one is below `PersistenceError` (datasets and stores) or `SparkJobsError` (operations and streams), some are below
both, and `NotInstalled` is an `ImportError`. A setting that cannot be is a `SettingsError` of pydantic-settings.

Example:
    >>> from springline.errors import PersistenceError
    >>> from springline.testing import lines_of, platform_in
    >>> with platform_in(folder) as platform:
    ...     try:
    ...         lines_of(platform, "words/load")
    ...     except PersistenceError as error:
    ...         print(error)
    words/load: nothing was ever written to this path
"""

from springline.extras import NotInstalled
from springline.persistence.errors import (
    CatalogUnavailable,
    CyclicLineage,
    DamagedCopy,
    InvalidPath,
    Irrecoverable,
    NeverWritten,
    OperationFailed,
    PersistenceError,
    StorageFull,
    StorageUnavailable,
    UnknownDataset,
)
from springline.spark_jobs.errors import (
    BadDeclaration,
    BadLanding,
    BadParameter,
    NoSpark,
    QualityStop,
    SparkJobsError,
    UnknownOperation,
)
from springline.spark_jobs.streaming.errors import (
    BadJob,
    LogUnavailable,
    MessagesGone,
    NoTopic,
    RoundFailed,
    StreamError,
    UnknownJob,
    UnknownStep,
)
from springline.spark_jobs.streaming.sources.errors import BadStream
from springline.spark_jobs.streaming.tracking.errors import BadRoot, BadUpdate

__all__ = [
    "BadDeclaration", "BadJob", "BadLanding", "BadParameter", "BadRoot", "BadStream", "BadUpdate", "CatalogUnavailable",
    "CyclicLineage", "DamagedCopy", "InvalidPath", "Irrecoverable", "LogUnavailable", "MessagesGone", "NeverWritten",
    "NoSpark", "NoTopic", "NotInstalled", "OperationFailed", "PersistenceError", "QualityStop", "RoundFailed",
    "SparkJobsError", "StorageFull", "StorageUnavailable", "StreamError", "UnknownDataset", "UnknownJob",
    "UnknownOperation", "UnknownStep",
]  # fmt: skip
