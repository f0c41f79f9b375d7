"""What can go wrong with streams: each error names the log, the offset or the unit, and what to do next."""

from springline.spark_jobs.errors import JobError, JobUsageError


class StreamError(JobError):
    """The root of this package's errors."""


class MissingStampError(StreamError):
    """A message between two stages without a stamp, or with one of another form."""


class StampGapError(StreamError):
    """A message between two stages is missing."""


class MissingStateError(StreamError):
    """A version of a unit's state is not there."""


class CorruptStateError(StreamError):
    """A version of a unit's state is there and cannot be read."""


class DiskFullError(StreamError, OSError):
    """There is no room for a file; what was to write it can be run again once some is freed."""


class NondeterminismError(StreamError):
    """A round that was run again came out otherwise."""


class MessagesLostError(StreamError):
    """Messages that a unit needs are not in its log any more."""


class RoundError(StreamError):
    """The step of a unit failed with the messages of a round; `cause` says of what."""

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(f"{where}: {cause}")
        self.cause = cause


class MessageIndependentError(StreamError):
    """A round fails, and not for some of its messages."""


class TopicReplacedError(MessagesLostError):
    """A topic is another one than that whose offsets are remembered, though it may have its name."""


class TopicGrownError(StreamError):
    """A topic has more partitions than when the application started."""


class LogLostError(StreamError):
    """A state is newer than all rounds that the rounds log holds: that log is not the one that it came from."""


class UnknownTopicError(StreamError):
    """A topic is not there."""


class LogUnavailableError(StreamError):
    """The log did not answer in time."""


class NeverRanError(StreamError):
    """A job has not run a round yet."""


class UnknownSavepointError(StreamError):
    """No savepoint of this name is there, or it could not be made."""


class FencedError(StreamError):
    """Another driver of the same job has taken over."""


class UnknownStepError(JobUsageError, StreamError):
    """The import path of a step leads nowhere."""


class InvalidJobError(JobUsageError, StreamError):
    """A declaration of a job that says something impossible."""


class UnknownJobError(JobUsageError, StreamError):
    """No job of this name is declared."""


class NoSinkError(StreamError):
    """No results of a job are in the catalog."""


class InvalidSqlError(JobUsageError, StreamError):
    """SQL over kept results that DuckDB cannot answer."""


class InvalidRangeError(JobUsageError, StreamError):
    """A range of a stream that nothing can be answered over."""


class AlreadyRunningError(StreamError):
    """A job's application runs already."""


class InvalidChannelError(JobUsageError, StreamError):
    """A channel that is chosen for a job whose signals need none."""
