"""Values as JSON, in files, messages and rows: encoded from their types, decoded strictly, with the format's number.

What is encoded alone, by a `Codec`, is an object `{"form": NUMBER, "value": …}`. What lies within something else that
has a number, such as a state's scalars or a round's versions, has none of its own: `plain` and `from_plain`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import msgspec

from springline.persistence.errors import DecodeError, FormatVersionError
from springline.persistence.text.redaction import redacted

T = TypeVar("T")


class _Envelope(msgspec.Struct, Generic[T]):
    form: int
    value: T


class _Form(msgspec.Struct):
    """What is looked at where the value has another shape: its number may say why."""

    form: int
    value: msgspec.Raw


_FORM = msgspec.json.Decoder(_Form)


def _number(value: object) -> float:
    """One of numpy's floating-point numbers as Python's, which it is a kind of."""
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


_ENCODER = msgspec.json.Encoder(enc_hook=_number)
_SORTING_ENCODER = msgspec.json.Encoder(enc_hook=_number, order="sorted")


class Codec(Generic[T]):
    """How values of one type lie in files and messages.

    `type_` is a dataclass, a struct, a union of structs with tags, or what these are made of. `form` grows by one with
    each change that older code could not read, or that could not be read from older data. `what` and `remedy` are for
    errors: what the values are, such as "the report of a unit", and what a person does about one of another form.
    With `sorts`, what mappings and dataclasses hold comes by name, so that an equal value gives the same bytes.

    >>> points = Codec(tuple[int, int], 1, "a point", "draw it again")
    >>> points.encode((3, 4))
    b'{"form":1,"value":[3,4]}'
    >>> points.decode(b'{"form":1,"value":[3,4]}', "point.json")
    (3, 4)
    """

    def __init__(self, type_: Any, form: int, what: str, remedy: str, *, sorts: bool = False) -> None:
        self.form = form
        self._encoder = _SORTING_ENCODER if sorts else _ENCODER
        self._what = what
        self._remedy = remedy
        self._decoder: msgspec.json.Decoder[_Envelope[Any]] = msgspec.json.Decoder(_Envelope[type_])

    def encode(self, value: T) -> bytes:
        """The value as one line of JSON, without a line feed."""
        return self._encoder.encode(_Envelope(self.form, value))

    def decode(self, content: bytes | memoryview, where: str) -> T:
        """The inverse of `encode`; `where` is a file, or a topic with the offset.

        Raises `FormatVersionError` where another version of Springline has written it, `DecodeError` where it is no
        such value; both name the place.
        """
        try:
            found = self._decoder.decode(content)
        except (ValueError, RecursionError) as error:
            self._check(_form_of(content), where)
            raise DecodeError(f"{where}: {self._what} cannot be read: {redacted(str(error))}") from error
        self._check(found.form, where)
        return cast(T, found.value)

    def _check(self, form: int | None, where: str) -> None:
        if form is not None and form != self.form:
            raise FormatVersionError(
                f"{where}: {self._what} is of form {form}, and this version of Springline reads form {self.form}: "
                f"{self._remedy}"
            )


def plain(value: Any) -> Any:
    """The value as JSON has it: dicts with texts as keys, lists, texts, numbers; the same for an equal value.

    The fields of a dataclass come in the order of their declaration, what a mapping holds in the mapping's.
    """
    return _listed(msgspec.to_builtins(value, str_keys=True, enc_hook=_number))


def _listed(value: Any) -> Any:
    """With lists for tuples, so that it equals what is read again from JSON."""
    if isinstance(value, dict):
        return {name: _listed(each) for name, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value


def from_plain(type_: type[T], value: Any, where: str) -> T:
    """The inverse of `plain`; `where` says what holds it. Raises `DecodeError`, naming the place and the field."""
    try:
        return msgspec.convert(value, type_, str_keys=True)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"{where} cannot be read: {redacted(str(error))}") from error


def _form_of(content: bytes | memoryview) -> int | None:
    """The number that an envelope tells, whatever is in it; None where there is none."""
    try:
        return _FORM.decode(content).form
    except (ValueError, RecursionError):
        return None
