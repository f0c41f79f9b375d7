"""Records in MessagePack, one a message: a map from the names of fields to their values."""

from __future__ import annotations

from typing import Any

import msgspec

from springline.formats import BatchFormat, Decoded, MessageBatch, decode_records

_read = msgspec.msgpack.Decoder(dict[str, Any]).decode


class MsgPack(BatchFormat):
    """What `format = "msgpack"` chooses; it has no options."""

    def decode(self, messages: MessageBatch) -> Decoded:
        return decode_records(self.schema, messages, _read)
