"""What can go wrong with streams: each error names the log, the offset or the unit, and what to do next."""

from springline.spark_jobs.errors import Misuse, SparkJobsError


class StreamError(SparkJobsError):
    """The root of this package's errors."""


class NoStamp(StreamError):
    """A message between two stages without a stamp, or with one of another form."""


class Gap(StreamError):
    """A message between two stages is missing."""


class MissingVersion(StreamError):
    """A version of a unit's state is not there."""


class Damaged(StreamError):
    """A version of a unit's state is there and cannot be read."""


class NoRoom(StreamError, OSError):
    """There is no room for a file; what was to write it can be run again once some is freed."""


class NotDeterministic(StreamError):
    """A round that was run again came out otherwise."""


class MessagesGone(StreamError):
    """Messages that a unit needs are not in its log any more."""


class RoundFailed(StreamError):
    """The step of a unit failed with the messages of a round; `cause` says of what."""

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(f"{where}: {cause}")
        self.cause = cause


class NotForItsMessages(StreamError):
    """A round fails, and not for some of its messages."""


class TopicReplaced(MessagesGone):
    """A topic is another one than that whose offsets are remembered, though it may have its name."""


class TopicGrown(StreamError):
    """A topic has more partitions than when the application started."""


class LogLost(StreamError):
    """A state is newer than all rounds that the rounds log holds: that log is not the one that it came from."""


class NoTopic(StreamError):
    """A topic is not there."""


class LogUnavailable(StreamError):
    """The log did not answer in time."""


class NeverRan(StreamError):
    """A job has not run a round yet."""


class NoSavepoint(StreamError):
    """No savepoint of this name is there, or it could not be made."""


class Fenced(StreamError):
    """Another driver of the same job has taken over."""


class UnknownStep(Misuse, StreamError):
    """The import path of a step leads nowhere."""


class BadJob(Misuse, StreamError):
    """A declaration of a job that says something impossible."""


class UnknownJob(Misuse, StreamError):
    """No job of this name is declared."""


class NothingKept(StreamError):
    """No results of a job are in the catalog."""


class BadSql(Misuse, StreamError):
    """SQL over kept results that DuckDB cannot answer."""


class BadRange(Misuse, StreamError):
    """A range of a stream that nothing can be answered over."""


class AlreadyRuns(StreamError):
    """A job's application runs already."""


class BadControl(Misuse, StreamError):
    """A channel that is chosen for a job whose signals need none."""
