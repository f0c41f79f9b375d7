"""The errors that the public API raises; each message names what failed, where, and what to do next.

Each is a subclass of `PersistenceError` (datasets and stores) or of `JobError` (operations and streams), some of both;
`MissingExtraError` is an `ImportError`. An invalid setting raises `SettingsError` of pydantic-settings.

Example:
    >>> from springline.errors import PersistenceError
    >>> from springline.testing import lines_of, platform_in
    >>> with platform_in(folder) as platform:
    ...     try:
    ...         lines_of(platform, "words/load")
    ...     except PersistenceError as error:
    ...         print(error)
    words/load: no dataset was ever written to this path
"""

from springline.extras import MissingExtraError
from springline.persistence.errors import (
    CatalogUnavailableError,
    CorruptCopyError,
    CyclicLineageError,
    InvalidPathError,
    IrrecoverableError,
    NeverWrittenError,
    OperationError,
    PersistenceError,
    StorageFullError,
    StorageUnavailableError,
    UnknownDatasetError,
)
from springline.spark_jobs.errors import (
    DeclarationError,
    JobError,
    LandingError,
    ParameterError,
    QualityError,
    SparkUnavailableError,
    UnknownOperationError,
)
from springline.spark_jobs.streaming.errors import (
    InvalidJobError,
    LogUnavailableError,
    MessagesLostError,
    RecordRefusedError,
    RoundError,
    StreamError,
    UnknownJobError,
    UnknownStepError,
    UnknownTopicError,
)
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError, InvalidStreamError
from springline.spark_jobs.streaming.tracking.errors import InvalidRootError, InvalidUpdateError

__all__ = [
    "CatalogUnavailableError",
    "CorruptCopyError",
    "CyclicLineageError",
    "DeclarationError",
    "InvalidFormatError",
    "InvalidJobError",
    "InvalidPathError",
    "InvalidRootError",
    "InvalidStreamError",
    "InvalidUpdateError",
    "IrrecoverableError",
    "JobError",
    "LandingError",
    "LogUnavailableError",
    "MessagesLostError",
    "MissingExtraError",
    "NeverWrittenError",
    "OperationError",
    "ParameterError",
    "PersistenceError",
    "QualityError",
    "RecordRefusedError",
    "RoundError",
    "SparkUnavailableError",
    "StorageFullError",
    "StorageUnavailableError",
    "StreamError",
    "UnknownDatasetError",
    "UnknownJobError",
    "UnknownOperationError",
    "UnknownStepError",
    "UnknownTopicError",
]  # fmt: skip
