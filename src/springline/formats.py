"""The public names for a package that adds a format of messages; `docs/howto.md` has a complete example.

    BatchFormat, Decoded       the base class of a format that decodes messages to Arrow record batches
    decode_records             decodes messages of one record each with a function from bytes to values by name
    Format                     what an entry point of the group `springline.formats` names: the base class of all
    Layout                     the fields of the rows, with their types, and the options of the format
    MessageBatch, Message      messages as arrays, and one of them
    FormatOptions              the base class of the table `format_options`
    open_format                returns the format of a layout, as windows and joins do

Example:
    >>> from springline.formats import Layout, open_format
    >>> open_format(Layout("csv", {"word": "text", "n": "int"}, {"delimiter": ";"}), ["n"]).columns
    ('n',)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from springline.extras import lazy_attributes

if TYPE_CHECKING:
    from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
    from springline.spark_jobs.streaming.sources.batch_format import BatchFormat, Decoded, decode_records
    from springline.spark_jobs.streaming.sources.format import Format, FormatOptions, open_format
    from springline.spark_jobs.streaming.sources.layout import Layout

__all__ = [
    "BatchFormat",
    "Decoded",
    "Format",
    "FormatOptions",
    "Layout",
    "Message",
    "MessageBatch",
    "decode_records",
    "open_format",
]

_NAMES = {
    "runtime.message": ("Message", "MessageBatch"),
    "sources.batch_format": ("BatchFormat", "Decoded", "decode_records"),
    "sources.format": ("Format", "FormatOptions", "open_format"),
    "sources.layout": ("Layout",),
}
_MODULES = {name: f"springline.spark_jobs.streaming.{module}" for module, names in _NAMES.items() for name in names}
__getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
