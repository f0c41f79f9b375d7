"""JSON kernels for few of many fields: each line is checked to its last byte, but only projected fields are parsed.

A line end is invalid inside any JSON token here, so no function reads beyond it. A negative position is a fault at
`-1 - position`; the kind of the fault is returned separately.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.bit_intrinsics import count_zeros, load_8
from springline.spark_jobs.streaming.sources.digit_kernels import parse_decimal, parse_int, parse_int_exactly

_NONE = -8  # no fault
_NO_OBJECT, _TOO_DEEP, _SURROGATE, _TWICE = -3, -4, -5, -10  # faults of a row, see `text`
_TEXT, _INT, _FLOAT, _NULL, _OTHER = 0, 1, 2, 3, 4  # kinds of a value; the first three as for columns
_THREE, _TOP_BITS = np.uint64(3), np.uint64(0x8080808080808080)
_ONES, _PRINTED = np.uint64(0x0101010101010101), np.uint64(0xE0E0E0E0E0E0E0E0)
_QUOTES, _BACKSLASHES = np.uint64(0x2222222222222222), np.uint64(0x5C5C5C5C5C5C5C5C)
_LITERALS = np.frombuffer(b"null" + b"true" + b"false" + b"NaN" + b"Infinity", np.uint8)


@njit(cache=True, nogil=True)
def _skip_blanks(data, position):  # type: ignore[no-untyped-def]
    """Return the position of the next byte that is not blank."""
    while data[position] == 32 or data[position] == 9 or data[position] == 13:
        position += 1
    return position


@njit(cache=True, nogil=True)
def _parse_hex(data, position):  # type: ignore[no-untyped-def]
    """Parse four hexadecimal digits; negative if they are invalid."""
    value = np.int64(0)
    for i in range(position, position + 4):
        digit = np.int64(data[i])
        if 48 <= digit <= 57:
            digit -= 48
        elif 65 <= digit <= 70 or 97 <= digit <= 102:
            digit = (digit & 7) + 9
        else:
            return np.int64(-1)
        value = value * 16 + digit
    return value


@njit(cache=True, nogil=True)
def _scan_text(data, position):  # type: ignore[no-untyped-def]
    """Scan the text that begins with the quote at `position`.

    Returns the position of its closing quote, whether it has escapes, and the fault.
    """
    escaped = False
    position += 1
    while True:
        while position + 8 <= data.size:  # to the next quote, backslash or control character, eight bytes at a time
            word = load_8(data, position)
            quotes, backslashes, controls = word ^ _QUOTES, word ^ _BACKSLASHES, word & _PRINTED
            marks = (quotes - _ONES) & ~quotes | (backslashes - _ONES) & ~backslashes | (controls - _ONES) & ~controls
            marks &= _TOP_BITS  # only the lowest set bit is reliable
            if marks:
                position += np.int64(count_zeros(marks) >> _THREE)
                break
            position += 8
        byte = data[position]
        if byte == 34:
            return position, escaped, _NONE
        if byte < 32:
            return -1 - position, escaped, _NO_OBJECT
        if byte != 92:
            position += 1
            continue
        escaped = True
        kind = data[position + 1]
        if kind in (34, 92, 47, 98, 102, 110, 114, 116):  # "\/bfnrt
            position += 2
            continue
        code = _parse_hex(data, position + 2) if kind == 117 else np.int64(-1)
        if code < 0:
            return -1 - position, escaped, _NO_OBJECT
        if 0xD800 <= code < 0xE000:
            paired = code < 0xDC00 and data[position + 6] == 92 and data[position + 7] == 117
            low = _parse_hex(data, position + 8) if paired else np.int64(-1)
            if low < 0xDC00 or low >= 0xE000:
                return -1 - position, escaped, _SURROGATE
            position += 6
        position += 6


@njit(cache=True, nogil=True)
def _unescape(data, start, end):  # type: ignore[no-untyped-def]
    """Remove the escapes of a text, in place, since it never grows; returns its new end."""
    to = start
    position = start
    while position < end:
        if data[position] != 92:
            data[to] = data[position]
            to += 1
            position += 1
            continue
        kind = data[position + 1]
        position += 2
        if kind != 117:
            if kind == 98:
                kind = 8
            elif kind == 102:
                kind = 12
            elif kind == 110:
                kind = 10
            elif kind == 114:
                kind = 13
            elif kind == 116:
                kind = 9
            data[to] = kind
            to += 1
            continue
        code = _parse_hex(data, position)
        position += 4
        if code >= 0xD800 and code < 0xE000:
            code = 0x10000 + ((code - 0xD800) << 10) + (_parse_hex(data, position + 2) - 0xDC00)
            position += 6
        if code < 0x80:
            data[to] = code
            to += 1
            continue
        if code < 0x800:
            data[to] = 0xC0 | (code >> 6)
        else:
            if code < 0x10000:
                data[to] = 0xE0 | (code >> 12)
            else:
                data[to] = 0xF0 | (code >> 18)
                to += 1
                data[to] = 0x80 | ((code >> 12) & 0x3F)
            to += 1
            data[to] = 0x80 | ((code >> 6) & 0x3F)
        data[to + 1] = 0x80 | (code & 0x3F)
        to += 2
    return to


@njit(cache=True, nogil=True)
def _digits_end(data, position):  # type: ignore[no-untyped-def]
    """Return the position after the digits."""
    while 48 <= data[position] <= 57:
        position += 1
    return position


@njit(cache=True, nogil=True)
def _scan_number(data, position):  # type: ignore[no-untyped-def]
    """Return the position after a number (negative: invalid), and whether it has no decimal point or exponent."""
    begin = position
    position += data[position] == 45
    first = position
    position = _digits_end(data, position)
    if position == first or (data[first] == 48 and position > first + 1):
        return -1 - begin, False
    is_integer = True
    if data[position] == 46:
        is_integer = False
        first = position + 1
        position = _digits_end(data, first)
        if position == first:
            return -1 - begin, False
    if data[position] == 101 or data[position] == 69:
        is_integer = False
        position += 1
        position += data[position] == 43 or data[position] == 45
        first = position
        position = _digits_end(data, first)
        if position == first:
            return -1 - begin, False
    return position, is_integer


@njit(cache=True, nogil=True)
def _scan_literal(data, position, first, size):  # type: ignore[no-untyped-def]
    """Return the position after the literal of `size` letters at `first`, negative if the data do not match it."""
    i = 0
    while i < size and data[position + i] == _LITERALS[first + i]:
        i += 1
    return position + i if i == size else -1 - position


@njit(cache=True, nogil=True)
def _is_named_number(data, start, end):  # type: ignore[no-untyped-def]
    """Return whether a text is `NaN`, `Infinity` or `-Infinity`."""
    if end - start == 3:
        return _scan_literal(data, start, 13, 3) >= 0
    start += data[start] == 45
    return end - start == 8 and _scan_literal(data, start, 16, 8) >= 0


@njit(cache=True, nogil=True)
def _scan_scalar(data, position):  # type: ignore[no-untyped-def]
    """Scan a value that is no object or list.

    Returns the position after it (negative: invalid), its kind, whether it has escapes, and the fault.
    """
    byte = data[position]
    if byte == 34:
        end, escaped, fault = _scan_text(data, position)
        return (end if end < 0 else end + 1), _TEXT, escaped, fault
    kind = _OTHER
    if 48 <= byte <= 57 or (byte == 45 and data[position + 1] != 73):
        end, is_integer = _scan_number(data, position)
        kind = _INT if is_integer else _FLOAT
    elif byte == 110:
        end = _scan_literal(data, position, 0, 4)
        kind = _NULL
    elif byte == 116:
        end = _scan_literal(data, position, 4, 4)
    elif byte == 102:
        end = _scan_literal(data, position, 8, 5)
    elif byte == 78:
        end = _scan_literal(data, position, 13, 3)
        kind = _FLOAT
    else:
        end = _scan_literal(data, position + (byte == 45), 16, 8)
        kind = _FLOAT
    return end, kind, False, (_NONE if end >= 0 else _NO_OBJECT)


@njit(cache=True, nogil=True)
def _scan_key(data, position):  # type: ignore[no-untyped-def]
    """Scan a name and its colon, with optional leading blanks.

    Returns the position after them (negative: invalid), the end of the name, whether it has escapes, and the fault.
    """
    position = _skip_blanks(data, position)
    if data[position] != 34:
        return -1 - position, position, False, _NO_OBJECT
    end, escaped, fault = _scan_text(data, position)
    if end < 0:
        return end, position, escaped, fault
    position = _skip_blanks(data, end + 1)
    if data[position] != 58:
        return -1 - position, position, escaped, _NO_OBJECT
    return position + 1, end, escaped, _NONE


@njit(cache=True, nogil=True)
def _scan_nested(data, position, stack):  # type: ignore[no-untyped-def]
    """Return the position after an object or list (negative: invalid), and the fault; `stack` holds its levels."""
    depth = 0
    while True:
        position = _skip_blanks(data, position)  # a value must follow
        byte = data[position]
        if byte == 123 or byte == 91:
            if depth == stack.size:
                return -1 - position, _TOO_DEEP
            stack[depth] = byte
            depth += 1
            position = _skip_blanks(data, position + 1)
            if data[position] != byte + 2:  # not empty
                if byte == 123:
                    position, _, _, fault = _scan_key(data, position)
                    if position < 0:
                        return position, fault
                continue
            depth -= 1
            position += 1
        else:
            position, _, _, fault = _scan_scalar(data, position)
            if position < 0:
                return position, fault
        while True:  # a value has ended
            if depth == 0:
                return position, _NONE
            position = _skip_blanks(data, position)
            if data[position] == 44:
                position += 1
                if stack[depth - 1] == 123:
                    position, _, _, fault = _scan_key(data, position)
                    if position < 0:
                        return position, fault
                break
            if data[position] != stack[depth - 1] + 2:
                return -1 - position, _NO_OBJECT
            depth -= 1
            position += 1


@njit(cache=True, nogil=True)
def _find_column(data, start, end, names, bounds):  # type: ignore[no-untyped-def]
    """Return the index of the projected column with this name; -1 if there is none."""
    for c in range(bounds.size - 1):
        begin = bounds[c]
        if bounds[c + 1] - begin != end - start:
            continue
        i = 0
        while i < end - start and data[start + i] == names[begin + i]:
            i += 1
        if i == end - start:
            return c
    return -1


@njit(cache=True, nogil=True)
def read_objects(  # type: ignore[no-untyped-def]
    data, names, bounds, kinds, stack, starts, lengths, ints, floats, valid, lines, faults, slow
):
    """Read the projected fields of the objects of all lines; `data` ends with a line end, and is modified.

    The name of column c lies in `names` from `bounds[c]` to `bounds[c + 1]`. Returns the numbers of good rows, of bad
    rows, and of doubles that need a slower parser; `text.RowBuffers` describes the output arrays. A blank line is not a
    row.
    """
    row = good = bad = slow_count = 0
    last_rows = np.full(kinds.size, -1, np.int64)
    position = 0
    while position < data.size:
        begin = position
        position = _skip_blanks(data, begin)
        if data[position] == 10:
            position += 1
            continue
        fault, detail, detail_length = np.int64(_NONE), np.int64(0), np.int64(0)
        broken = np.int64(_NONE)
        slow_before = slow_count
        for c in range(kinds.size):
            lengths[c, good] = -1
            ints[c, good] = 0
            floats[c, good] = 0.0
            valid[c, good] = False
        if data[position] != 123:
            position, broken = -1 - position, np.int64(_NO_OBJECT)
        else:
            position = _skip_blanks(data, position + 1)
        if position >= 0 and data[position] == 125:
            position += 1
        elif position >= 0:
            while True:
                position = _skip_blanks(data, position)
                start = position + 1
                position, stop, escaped, broken = _scan_key(data, position)
                if position < 0:
                    break
                if escaped:
                    stop = _unescape(data, start, stop)
                c = _find_column(data, start, stop, names, bounds)
                start = position = _skip_blanks(data, position)
                if data[position] == 123 or data[position] == 91:
                    kind, escaped = _OTHER, False
                    position, broken = _scan_nested(data, position, stack)
                else:
                    position, kind, escaped, broken = _scan_scalar(data, position)
                if position < 0:
                    break
                if c >= 0:
                    fits = kind == kinds[c] or kind == _NULL or (kind == _INT and kinds[c] == _FLOAT)
                    stop = position
                    if kind == _TEXT and kinds[c] == _FLOAT:
                        last = _unescape(data, start + 1, position - 1) if escaped else position - 1
                        if _is_named_number(data, start + 1, last):
                            kind, fits = _FLOAT, True
                            start, stop = start + 1, last
                    if fault == _NONE and last_rows[c] == row:
                        fault = np.int64(_TWICE - c)
                    elif kind == _TEXT and fits:
                        stop = position - 1
                        if escaped:
                            stop = _unescape(data, start + 1, stop)
                        starts[c, good] = start + 1
                        lengths[c, good] = stop - start - 1
                    elif kinds[c] == _INT and kind == _INT:
                        number, fits = parse_int(data, start, position)
                        if not fits:
                            number, fits = parse_int_exactly(data, start, position)
                        ints[c, good] = number
                        valid[c, good] = True
                    elif kind != _NULL and fits:
                        value, exact = parse_decimal(data, start, stop)
                        floats[c, good] = value
                        valid[c, good] = True
                        if not exact and last_rows[c] != row:
                            starts[c, good] = start
                            lengths[c, good] = stop - start
                            slow[slow_count, 0] = c
                            slow[slow_count, 1] = good
                            slow_count += 1
                    if fault == _NONE and not fits:
                        fault, detail, detail_length = np.int64(c), np.int64(start), np.int64(position - start)
                    last_rows[c] = row
                position = _skip_blanks(data, position)
                if data[position] == 44:
                    position += 1
                    continue
                if data[position] == 125:
                    position += 1
                else:
                    position, broken = -1 - position, np.int64(_NO_OBJECT)
                break
        if position >= 0:
            position = _skip_blanks(data, position)
            if data[position] != 10:
                position, broken = -1 - position, np.int64(_NO_OBJECT)
        end = position
        if position < 0:
            fault, detail, detail_length = np.int64(broken), np.int64(-1 - position - begin), np.int64(0)
            end = -1 - position
            while data[end] != 10:
                end += 1
        if fault == _NONE:
            lines[good, 0] = row
            lines[good, 1] = begin
            lines[good, 2] = end
            good += 1
        else:
            slow_count = slow_before
            faults[bad, 0] = row
            faults[bad, 1] = begin
            faults[bad, 2] = end
            faults[bad, 3] = fault
            faults[bad, 4] = detail
            faults[bad, 5] = detail_length
            bad += 1
        row += 1
        position = end + 1
    return good, bad, slow_count
