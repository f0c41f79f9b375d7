"""JSON lines of which a few fields are wanted: each line is checked to its last byte, and only those fields are read.

A line's end is a byte that no rule of JSON lets through here, so that nothing looks beyond it. Places below 0 are
faults: `-1 - place` is where, and which one it is stands beside.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.bit_intrinsics import count_zeros, load_8
from springline.spark_jobs.streaming.sources.digit_kernels import decimal, whole, whole_exactly

_NONE = -8  # no fault
_NO_OBJECT, _TOO_DEEP, _SURROGATE, _TWICE = -3, -4, -5, -10  # faults of a row: `text_rows`
_TEXT, _INT, _FLOAT, _NULL, _OTHER = 0, 1, 2, 3, 4  # what a value is: of the first three, as columns
_THREE, _TOP_BITS = np.uint64(3), np.uint64(0x8080808080808080)
_ONES, _PRINTED = np.uint64(0x0101010101010101), np.uint64(0xE0E0E0E0E0E0E0E0)
_QUOTES, _BACKSLASHES = np.uint64(0x2222222222222222), np.uint64(0x5C5C5C5C5C5C5C5C)
_WORDS = np.frombuffer(b"null" + b"true" + b"false" + b"NaN" + b"Infinity", np.uint8)


@njit(cache=True, nogil=True)
def _blank(data, at):  # type: ignore[no-untyped-def]
    """Where the next byte is that is no blank."""
    while data[at] == 32 or data[at] == 9 or data[at] == 13:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _hex(data, at):  # type: ignore[no-untyped-def]
    """The number of four hexadecimal digits; below 0 if they are none."""
    found = np.int64(0)
    for i in range(at, at + 4):
        digit = np.int64(data[i])
        if 48 <= digit <= 57:
            digit -= 48
        elif 65 <= digit <= 70 or 97 <= digit <= 102:
            digit = (digit & 7) + 9
        else:
            return np.int64(-1)
        found = found * 16 + digit
    return found


@njit(cache=True, nogil=True)
def _text(data, at):  # type: ignore[no-untyped-def]
    """Where a text ends that begins with the quote at `at`: at its last quote; whether it has escapes; the fault."""
    escaped = False
    at += 1
    while True:
        while at + 8 <= data.size:  # to the next quote, backslash or control character, eight bytes at a time
            word = load_8(data, at)
            quotes, backslashes, controls = word ^ _QUOTES, word ^ _BACKSLASHES, word & _PRINTED
            marks = (quotes - _ONES) & ~quotes | (backslashes - _ONES) & ~backslashes | (controls - _ONES) & ~controls
            marks &= _TOP_BITS  # the lowest that is set is a right one
            if marks:
                at += np.int64(count_zeros(marks) >> _THREE)
                break
            at += 8
        byte = data[at]
        if byte == 34:
            return at, escaped, _NONE
        if byte < 32:
            return -1 - at, escaped, _NO_OBJECT
        if byte != 92:
            at += 1
            continue
        escaped = True
        kind = data[at + 1]
        if kind in (34, 92, 47, 98, 102, 110, 114, 116):  # "\/bfnrt
            at += 2
            continue
        code = _hex(data, at + 2) if kind == 117 else np.int64(-1)
        if code < 0:
            return -1 - at, escaped, _NO_OBJECT
        if 0xD800 <= code < 0xE000:
            paired = code < 0xDC00 and data[at + 6] == 92 and data[at + 7] == 117
            low = _hex(data, at + 8) if paired else np.int64(-1)
            if low < 0xDC00 or low >= 0xE000:
                return -1 - at, escaped, _SURROGATE
            at += 6
        at += 6


@njit(cache=True, nogil=True)
def _unescape(data, start, end):  # type: ignore[no-untyped-def]
    """Write a text without its escapes, in place, where it is never longer; returns where it ends then."""
    to = start
    at = start
    while at < end:
        if data[at] != 92:
            data[to] = data[at]
            to += 1
            at += 1
            continue
        kind = data[at + 1]
        at += 2
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
        code = _hex(data, at)
        at += 4
        if code >= 0xD800 and code < 0xE000:
            code = 0x10000 + ((code - 0xD800) << 10) + (_hex(data, at + 2) - 0xDC00)
            at += 6
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
def _digits_end(data, at):  # type: ignore[no-untyped-def]
    """Behind the digits."""
    while 48 <= data[at] <= 57:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _number(data, at):  # type: ignore[no-untyped-def]
    """Behind a number, below 0 if it is none; and whether it is a whole one, without a point and an exponent."""
    begin = at
    at += data[at] == 45
    first = at
    at = _digits_end(data, at)
    if at == first or (data[first] == 48 and at > first + 1):
        return -1 - begin, False
    whole_one = True
    if data[at] == 46:
        whole_one = False
        first = at + 1
        at = _digits_end(data, first)
        if at == first:
            return -1 - begin, False
    if data[at] == 101 or data[at] == 69:
        whole_one = False
        at += 1
        at += data[at] == 43 or data[at] == 45
        first = at
        at = _digits_end(data, first)
        if at == first:
            return -1 - begin, False
    return at, whole_one


@njit(cache=True, nogil=True)
def _word(data, at, first, size):  # type: ignore[no-untyped-def]
    """Behind the word of so many letters from `first` on, below 0 if it does not stand there."""
    i = 0
    while i < size and data[at + i] == _WORDS[first + i]:
        i += 1
    return at + i if i == size else -1 - at


@njit(cache=True, nogil=True)
def _scalar(data, at):  # type: ignore[no-untyped-def]
    """Behind a value that holds no others, below 0 if it is none; what it is, whether it has escapes, the fault."""
    byte = data[at]
    if byte == 34:
        end, escaped, fault = _text(data, at)
        return (end if end < 0 else end + 1), _TEXT, escaped, fault
    kind = _OTHER
    if 48 <= byte <= 57 or (byte == 45 and data[at + 1] != 73):
        end, whole_one = _number(data, at)
        kind = _INT if whole_one else _FLOAT
    elif byte == 110:
        end = _word(data, at, 0, 4)
        kind = _NULL
    elif byte == 116:
        end = _word(data, at, 4, 4)
    elif byte == 102:
        end = _word(data, at, 8, 5)
    elif byte == 78:
        end = _word(data, at, 13, 3)
        kind = _FLOAT
    else:
        end = _word(data, at + (byte == 45), 16, 8)
        kind = _FLOAT
    return end, kind, False, (_NONE if end >= 0 else _NO_OBJECT)


@njit(cache=True, nogil=True)
def _key(data, at):  # type: ignore[no-untyped-def]
    """Behind a name and its colon, below 0 if there are none; where the name ends, whether it has escapes, the fault.

    Blanks may stand before.
    """
    at = _blank(data, at)
    if data[at] != 34:
        return -1 - at, at, False, _NO_OBJECT
    end, escaped, fault = _text(data, at)
    if end < 0:
        return end, at, escaped, fault
    at = _blank(data, end + 1)
    if data[at] != 58:
        return -1 - at, at, escaped, _NO_OBJECT
    return at + 1, end, escaped, _NONE


@njit(cache=True, nogil=True)
def _nested(data, at, stack):  # type: ignore[no-untyped-def]
    """Behind an object or a list, below 0 if it is none; and the fault. `stack` has room for its levels."""
    depth = 0
    while True:
        at = _blank(data, at)  # a value is due
        byte = data[at]
        if byte == 123 or byte == 91:
            if depth == stack.size:
                return -1 - at, _TOO_DEEP
            stack[depth] = byte
            depth += 1
            at = _blank(data, at + 1)
            if data[at] != byte + 2:  # not empty
                if byte == 123:
                    at, _, _, fault = _key(data, at)
                    if at < 0:
                        return at, fault
                continue
            depth -= 1
            at += 1
        else:
            at, _, _, fault = _scalar(data, at)
            if at < 0:
                return at, fault
        while True:  # a value has ended
            if depth == 0:
                return at, _NONE
            at = _blank(data, at)
            if data[at] == 44:
                at += 1
                if stack[depth - 1] == 123:
                    at, _, _, fault = _key(data, at)
                    if at < 0:
                        return at, fault
                break
            if data[at] != stack[depth - 1] + 2:
                return -1 - at, _NO_OBJECT
            depth -= 1
            at += 1


@njit(cache=True, nogil=True)
def _column(data, start, end, names, bounds):  # type: ignore[no-untyped-def]
    """Which of the wanted columns has this name; -1 if none."""
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
    """Read the wanted fields of the objects of all lines; `data` ends with a line's end, and is written to.

    The wanted columns' names lie in `names` from `bounds[c]` to `bounds[c + 1]`. Returns how many rows are good, how
    many bad, and how many doubles need a closer look: what lies where, `text_rows.Room` tells. A line of blanks is no
    row.
    """
    row = good = bad = slowly = 0
    seen = np.full(kinds.size, -1, np.int64)
    at = 0
    while at < data.size:
        begin = at
        at = _blank(data, begin)
        if data[at] == 10:
            at += 1
            continue
        fault, told, also = np.int64(_NONE), np.int64(0), np.int64(0)
        broken = np.int64(_NONE)
        slow_before = slowly
        for c in range(kinds.size):
            lengths[c, good] = -1
            ints[c, good] = 0
            floats[c, good] = 0.0
            valid[c, good] = False
        if data[at] != 123:
            at, broken = -1 - at, np.int64(_NO_OBJECT)
        else:
            at = _blank(data, at + 1)
        if at >= 0 and data[at] == 125:
            at += 1
        elif at >= 0:
            while True:
                at = _blank(data, at)
                start = at + 1
                at, stop, escaped, broken = _key(data, at)
                if at < 0:
                    break
                if escaped:
                    stop = _unescape(data, start, stop)
                c = _column(data, start, stop, names, bounds)
                start = at = _blank(data, at)
                if data[at] == 123 or data[at] == 91:
                    kind, escaped = _OTHER, False
                    at, broken = _nested(data, at, stack)
                else:
                    at, kind, escaped, broken = _scalar(data, at)
                if at < 0:
                    break
                if c >= 0:
                    fits = kind == kinds[c] or kind == _NULL or (kind == _INT and kinds[c] == _FLOAT)
                    if fault == _NONE and seen[c] == row:
                        fault = np.int64(_TWICE - c)
                    elif kind == _TEXT and fits:
                        stop = at - 1
                        if escaped:
                            stop = _unescape(data, start + 1, stop)
                        starts[c, good] = start + 1
                        lengths[c, good] = stop - start - 1
                    elif kinds[c] == _INT and kind == _INT:
                        number, fits = whole(data, start, at)
                        if not fits:
                            number, fits = whole_exactly(data, start, at)
                        ints[c, good] = number
                        valid[c, good] = True
                    elif kind != _NULL and fits:
                        value, exact = decimal(data, start, at)
                        floats[c, good] = value
                        valid[c, good] = True
                        if not exact and seen[c] != row:
                            starts[c, good] = start
                            lengths[c, good] = at - start
                            slow[slowly, 0] = c
                            slow[slowly, 1] = good
                            slowly += 1
                    if fault == _NONE and not fits:
                        fault, told, also = np.int64(c), np.int64(start), np.int64(at - start)
                    seen[c] = row
                at = _blank(data, at)
                if data[at] == 44:
                    at += 1
                    continue
                if data[at] == 125:
                    at += 1
                else:
                    at, broken = -1 - at, np.int64(_NO_OBJECT)
                break
        if at >= 0:
            at = _blank(data, at)
            if data[at] != 10:
                at, broken = -1 - at, np.int64(_NO_OBJECT)
        end = at
        if at < 0:
            fault, told, also = np.int64(broken), np.int64(-1 - at - begin), np.int64(0)
            end = -1 - at
            while data[end] != 10:
                end += 1
        if fault == _NONE:
            lines[good, 0] = row
            lines[good, 1] = begin
            lines[good, 2] = end
            good += 1
        else:
            slowly = slow_before
            faults[bad, 0] = row
            faults[bad, 1] = begin
            faults[bad, 2] = end
            faults[bad, 3] = fault
            faults[bad, 4] = told
            faults[bad, 5] = also
            bad += 1
        row += 1
        at = end + 1
    return good, bad, slowly
