"""Errors of streams: each message names the log, the offset or the unit, and what to do next."""

from springline.spark_jobs.errors import JobError, JobUsageError


class StreamError(JobError):
    """Base class of the errors of streams."""


class MissingStampError(StreamError):
    """A message between two stages has no stamp, or a stamp of another format."""


class StampGapError(StreamError):
    """A message between two stages is missing."""


class MissingStateError(StreamError):
    """A version of a unit's state does not exist."""


class CorruptStateError(StreamError):
    """A version of a unit's state exists but cannot be read."""


class DiskFullError(StreamError, OSError):
    """The disk is full; the failed write can be repeated once space is freed."""


class NondeterminismError(StreamError):
    """Running a round again gave a different result."""


class MessagesLostError(StreamError):
    """Messages that a unit needs have been deleted from its log."""


class RoundError(StreamError):
    """The step of a unit failed on the messages of a round; `cause` is the reason."""

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(f"{where}: {cause}")
        self.cause = cause


class MessageIndependentError(StreamError):
    """A round fails regardless of which of its messages it processes."""


class CorruptBatchError(StreamError):
    """Records cannot be read as a broker sends them: their bytes were damaged, or have another form."""


class UnsupportedClusterError(StreamError):
    """Record batches of a topic cannot be read, but its messages can: an old broker or format, or other security."""


class ProtocolError(StreamError):
    """What a broker has sent is no response to the request."""


class TopicReplacedError(MessagesLostError):
    """A topic was replaced: its id differs from that of the recorded offsets, even if the name is the same."""


class LogLostError(StreamError):
    """A state is newer than every round in the rounds log, so the state belongs to another log."""


class UnknownTopicError(StreamError):
    """A topic does not exist."""


class LogUnavailableError(StreamError):
    """Kafka did not answer in time."""


class SchemaUnavailableError(StreamError):
    """A schema cannot be had now: its registry does not answer or refuses the credentials, or this host is full."""


class RecordRefusedError(StreamError):
    """A topic does not take a record: it is too large, or has no key and the topic is compacted."""


class NeverRanError(StreamError):
    """A job has not run any round yet."""


class UnknownSavepointError(StreamError):
    """No savepoint of this name exists, or the savepoint could not be made."""


class FencedError(StreamError):
    """Another driver of the same job has taken over."""


class UnknownStepError(JobUsageError, StreamError):
    """The import path of a step cannot be resolved."""


class InvalidJobError(JobUsageError, StreamError):
    """The declaration of a job is invalid."""


class UnknownJobError(JobUsageError, StreamError):
    """No job of this name is declared."""


class NoSinkError(StreamError):
    """The catalog has no results of the job."""


class InvalidSqlError(JobUsageError, StreamError):
    """DuckDB cannot execute the SQL query over stored results."""


class InvalidRangeError(JobUsageError, StreamError):
    """A range of a stream is invalid, or no results can be computed for it."""


class AlreadyRunningError(StreamError):
    """The job's application is already running."""


class InvalidChannelError(JobUsageError, StreamError):
    """A signal channel is configured for a job that needs none."""
