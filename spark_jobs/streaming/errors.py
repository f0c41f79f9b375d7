"""What can go wrong with streams: each error names the log, the offset or the unit, and what to do next."""


class StreamError(Exception):
    """The root of this package's errors."""


class NoStamp(StreamError):
    """A message between two stages without a stamp, or with one of another form."""


class Gap(StreamError):
    """A message between two stages is missing."""


class MissingVersion(StreamError):
    """A version of a unit's state is not there."""


class Damaged(StreamError):
    """A version of a unit's state is there and cannot be read."""


class NotDeterministic(StreamError):
    """A round that was run again came out otherwise."""


class MessagesGone(StreamError):
    """Messages that a unit needs are not in its log any more."""
