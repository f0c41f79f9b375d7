"""MessagePack passes the suite that every format has to pass."""

import msgspec

from springline.testing import FormatSuite


class TestMsgPack(FormatSuite):
    format = "msgpack"
    wrong = (
        (msgspec.msgpack.encode({"name": "a", "count": "three"}), "count is no int: 'three'"),
        (msgspec.msgpack.encode([1, 2]), "Expected `object`, got `array`"),
    )

    def encode(self, row):
        return msgspec.msgpack.encode(row)

    def encode_more(self, row):
        return msgspec.msgpack.encode({"more": [1, None], **row})
