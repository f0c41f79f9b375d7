"""JSON encoding of values in files, messages and rows: typed, strictly decoded, with a format number.

A value encoded alone, by a `Codec`, is an object `{"form": NUMBER, "value": …}`. A value inside something that
has a format number already, such as a state's scalars or a round's versions, has none: use `to_json_value` and
`from_json_value`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import msgspec

from springline.persistence.errors import DecodeError, FormatVersionError
from springline.persistence.text.redaction import redact_secrets

T = TypeVar("T")


class _Envelope(msgspec.Struct, Generic[T]):
    form: int
    value: T


class _Form(msgspec.Struct):
    """Fallback for a value of another shape: its format number may explain the difference."""

    form: int
    value: msgspec.Raw


_FORM_DECODER = msgspec.json.Decoder(_Form)


def _encode_number(value: object) -> float:
    """Convert a floating-point number of numpy to Python's float."""
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"a {type(value).__name__} cannot be represented in JSON")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_number)
_SORTING_ENCODER = msgspec.json.Encoder(enc_hook=_encode_number, order="sorted")


class Codec(Generic[T]):
    """Encoder and decoder for values of one type in files and messages.

    `type_` is a dataclass, a struct, a union of tagged structs, or a composition of these. Increment `form` with
    each change that older code could not read, or that could not be read from older data. `description` and `remedy`
    are for error messages: what the values are, such as "the report of a unit", and what to do about a value in another
    format. With `sort_keys`, keys of mappings and dataclasses are sorted, so that equal values give the same bytes.

    >>> points = Codec(tuple[int, int], 1, "a point", "draw it again")
    >>> points.encode((3, 4))
    b'{"form":1,"value":[3,4]}'
    >>> points.decode(b'{"form":1,"value":[3,4]}', "point.json")
    (3, 4)
    """

    def __init__(self, type_: Any, form: int, description: str, remedy: str, *, sort_keys: bool = False) -> None:
        self.form = form
        self._encoder = _SORTING_ENCODER if sort_keys else _ENCODER
        self._description = description
        self._remedy = remedy
        self._decoder: msgspec.json.Decoder[_Envelope[Any]] = msgspec.json.Decoder(_Envelope[type_])

    def encode(self, value: T) -> bytes:
        """Encode the value as one line of JSON, without a line feed."""
        return self._encoder.encode(_Envelope(self.form, value))

    def decode(self, content: bytes | memoryview, where: str) -> T:
        """Decode what `encode` returned; `where` is a file, or a topic with the offset.

        Raises `FormatVersionError` if another version of Springline wrote it, `DecodeError` if it is not
        such a value; both name `where`.
        """
        try:
            envelope = self._decoder.decode(content)
        except (ValueError, RecursionError) as error:
            self._check_form(_form_of(content), where)
            raise DecodeError(f"{where}: {self._description} cannot be read: {redact_secrets(str(error))}") from error
        self._check_form(envelope.form, where)
        return cast(T, envelope.value)

    def _check_form(self, form: int | None, where: str) -> None:
        if form is not None and form != self.form:
            raise FormatVersionError(
                f"{where}: {self._description} has format {form}, and this version "
                f"of Springline reads format {self.form}: "
                f"{self._remedy}"
            )


def to_json_value(value: Any) -> Any:
    """Convert the value to JSON types: dicts with string keys, lists, strings, numbers.

    Equal values give equal results. The fields of a dataclass are in the order of their declaration, the keys of a
    mapping in the order of the mapping.
    """
    return _with_lists(msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_number))


def _with_lists(value: Any) -> Any:
    """Replace tuples by lists, so that the value equals what is decoded from JSON."""
    if isinstance(value, dict):
        return {name: _with_lists(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_lists(each) if isinstance(each, _CONTAINERS) else each for each in value]
    return value


_CONTAINERS = (dict, list, tuple)


def from_json_value(type_: type[T], value: Any, where: str) -> T:
    """Convert back what `to_json_value` returned; `where` names its container.

    Raises `DecodeError`, which names `where` and the field.
    """
    try:
        return msgspec.convert(value, type_, str_keys=True)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"{where} cannot be read: {redact_secrets(str(error))}") from error


def _form_of(content: bytes | memoryview) -> int | None:
    """Return the format number of an envelope, whatever its content; None if there is none."""
    try:
        return _FORM_DECODER.decode(content).form
    except (ValueError, RecursionError):
        return None
