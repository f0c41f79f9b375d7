"""Formats of messages: installed packages register them in the entry-point group of `FORMATS`.

The project's own formats are registered the same way; none is built in. In the `pyproject.toml` of a package with a
format:

    [project.entry-points."springline.formats"]
    msgpack = "springline_msgpack:MsgPack"      # a subclass of `Format`; a table says format = "msgpack"

A format is imported only when a table names it. Windows and joins decode every format by its class alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from springline.persistence.errors import ExtensionError
from springline.persistence.extensions import Extensions
from springline.persistence.model.toml_table import InvalidTableError, TomlTable, read_table
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.layout import Layout, is_metadata

if TYPE_CHECKING:
    from springline.spark_jobs.streaming.runtime.message import MessageBatch
    from springline.spark_jobs.streaming.runtime.step import DeadLetter
    from springline.spark_jobs.streaming.sources.chunk import Chunk

FORMATS = Extensions("springline.formats", "format")


class FormatOptions(TomlTable, frozen=True):
    """Base class of the keys of `format_options`; without any itself.

    Example:
        >>> class LineOptions(FormatOptions, frozen=True):
        ...     encoding: str = "utf-8"
    """


class Format(ABC):
    """Decodes the messages of a topic to rows; immutable, so that threads may share it.

    Args:
        layout: the fields of the rows, with their types, and the options that a job declares for the format.
        columns: the names of the fields that are read, in the order of the fields.

    Raises:
        InvalidFormatError: the options are not those of the format, or the fields cannot be read from it.

    Attributes:
        Options: the class of the table `format_options`; none by default.

    Example:
        >>> from springline.formats import Layout, Message, MessageBatch, open_format
        >>> columns = open_format(Layout("csv", {"word": "text", "n": "int"}), ["n"])
        >>> [chunk.columns["n"].values for chunk in columns.chunks([MessageBatch.of([Message(7, b"a,3")])], [])]
        [array([3])]
    """

    Options: ClassVar[type[FormatOptions]] = FormatOptions

    def __init__(self, layout: Layout, columns: Sequence[str]) -> None:
        self.layout = layout
        self.columns = tuple(columns)
        self.options: Any = _read_options(self.Options, layout)

    @abstractmethod
    def chunks(self, batches: Iterable[MessageBatch], dead: list[DeadLetter]) -> Iterator[Chunk]:
        """Yield the valid rows with the columns, in the order of the messages; add a dead letter for each other row.

        A chunk is valid until the next one. No message may raise an error, whatever its bytes are; one without a value
        has no rows. If several fields of a row are invalid, the reason names the one that is declared first.
        """


def open_format(layout: Layout, projection: Collection[str], topics: int = 1) -> Format:
    """Return the format of a layout, which reads some of its fields.

    Args:
        layout: the fields of the rows, with their types, and the format of the messages with its options.
        projection: the names of the fields to read; those from beside the values of messages, such as `_key`, too.
        topics: how many topics are read as one, which the number of a partition depends on.

    Raises:
        InvalidFormatError: no package provides the format, or its options or the fields do not fit.

    Example:
        >>> from springline.formats import Layout
        >>> open_format(Layout("json", {"user.id": "int", "_key": "text"}), ["_key", "user.id"]).columns
        ('user.id', '_key')
    """
    try:
        kind = FORMATS.load(layout.format)
    except ExtensionError as error:
        raise InvalidFormatError(str(error)) from error
    if not isinstance(kind, type) or not issubclass(kind, Format):
        raise InvalidFormatError(
            f"format {layout.format!r} is {kind!r}; expected a subclass of springline.formats.Format"
        )
    fields = {name: field for name, field in layout.fields.items() if not is_metadata(name)}
    content: Format = kind(replace(layout, fields=fields), [name for name in fields if name in projection])
    columns = [name for name in layout.fields if name in projection]
    if len(columns) == len(content.columns):
        return content
    from springline.spark_jobs.streaming.sources.metadata import Metadata  # its kernels are compiled

    metadata = Metadata(layout, [name for name in columns if is_metadata(name)], topics)
    return _WithMetadata(content, layout, columns, metadata.add)


class _WithMetadata(Format):
    """A format whose rows also have fields from beside the values of their messages."""

    def __init__(
        self, content: Format, layout: Layout, columns: Sequence[str], add: Callable[[Chunk, list[DeadLetter]], Chunk]
    ) -> None:
        self.layout = layout
        self.columns = tuple(columns)
        self.options = content.options
        self._content = content
        self._add = add

    def chunks(self, batches: Iterable[MessageBatch], dead: list[DeadLetter]) -> Iterator[Chunk]:
        return (self._add(chunk, dead) for chunk in self._content.chunks(batches, dead))


def _read_options(model: type[FormatOptions], layout: Layout) -> FormatOptions:
    try:
        return read_table(model, layout.options, f"format_options of {layout.format}")
    except InvalidTableError as error:
        raise InvalidFormatError(str(error)) from error
