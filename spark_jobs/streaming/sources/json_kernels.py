"""JSON kernels for few of many fields: each line is checked to its last byte, but only projected fields are parsed.

Rows of a topic mostly have the same names in the same order. So a name, with the blanks around it and its colon, is
first compared with the one that followed in a row before, 32 bytes at a time, and is read only if it differs.

A line end is invalid inside any JSON token here, so no function reads beyond it, but 32 bytes are loaded wherever a
token may be: `text.PADDING` line ends follow the last line. A negative position is a fault at `-1 - position`; the kind
of the fault is returned separately.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.bit_intrinsics import count_digits, count_equal, count_plain
from springline.spark_jobs.streaming.sources.field_types import BOOLEAN, BYTES, DECIMAL, TIMESTAMP_NUMBER
from springline.spark_jobs.streaming.sources.value_kernels import (
    decode_base64,
    parse_decimal,
    parse_int,
    parse_int_exactly,
    parse_value,
)

_NONE = -8  # no fault
_NO_OBJECT, _TOO_DEEP, _SURROGATE, _TWICE = -3, -4, -5, -10  # faults of a row, see `text`
_TEXT, _INT, _FLOAT, _NULL, _OTHER = 0, 1, 2, 3, 4  # kinds of a value; the first three as for columns
_LITERALS = np.frombuffer(b"null" + b"true" + b"false" + b"NaN" + b"Infinity", np.uint8)

_REMEMBERED = 512  # names of rows before, in their order
_AHEAD = 4  # remembered names that a row may leave out


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
        while True:
            plain = count_plain(data, position)
            position += plain
            if plain < 32:
                break
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
    while True:
        digits = count_digits(data, position)
        position += digits
        if digits < 32:
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
def _scan_nested(data, position, stack, depth):  # type: ignore[no-untyped-def]
    """Return the position after an object or list (negative: invalid), and the fault.

    `stack` holds its levels, from `depth` on, which are around it.
    """
    around = depth
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
            if depth == around:
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
def _scan_plain(data, position):  # type: ignore[no-untyped-def]
    """Scan what most values are: a whole number of fewer than 32 digits, or a text without escapes of fewer bytes.

    Returns the position after it, 0 if it is something else, and its kind.
    """
    end, kind = np.int64(0), _TEXT
    if data[position] == 34:
        size = count_plain(data, position + 1)
        if size < 32 and data[position + 1 + size] == 34:
            end = position + size + 2
    else:
        kind = _INT
        first = position + (data[position] == 45)
        size = count_digits(data, first)
        if 0 < size < 32 and (data[first] != 48 or size == 1):
            after = data[first + size]
            if after == 44 or after == 125 or after == 93:
                end = first + size
    return end, kind


@njit(cache=True, nogil=True)
def _is_same(data, position, other, size):  # type: ignore[no-untyped-def]
    """Return whether the same `size` bytes are at two positions."""
    while size > 32:
        if count_equal(data, position, other) < 32:
            return False
        position += 32
        other += 32
        size -= 32
    return count_equal(data, position, other) >= size


@njit(cache=True, nogil=True)
def _has_kind(data, start, kind, column_kind):  # type: ignore[no-untyped-def]
    """Return whether a value of a kind that begins there may be one of a column of the kind of the column."""
    if column_kind == BOOLEAN:
        return kind == _OTHER and (data[start] == 116 or data[start] == 102)  # true, false
    if column_kind in (DECIMAL, TIMESTAMP_NUMBER):
        return kind in (_INT, _FLOAT) or (kind == _TEXT and column_kind == DECIMAL)
    return kind == _TEXT


@njit(cache=True, nogil=True)
def _find_name(data, start, end, node, names, bounds, owners, items):  # type: ignore[no-untyped-def]
    """Return the index of a name that is wanted in the objects of `node`; -1 if it is not."""
    for n in range(owners.size):
        begin = bounds[n]
        if owners[n] != node or items[n] >= 0 or bounds[n + 1] - begin != end - start:
            continue
        i = 0
        while i < end - start and data[start + i] == names[begin + i]:
            i += 1
        if i == end - start:
            return n
    return -1


@njit(cache=True, nogil=True)
def _find_item(ordinal, node, owners, items):  # type: ignore[no-untyped-def]
    """Return the index of the name of an item that is wanted in the lists of `node`; -1 if it is not."""
    for n in range(owners.size):
        if owners[n] == node and items[n] == ordinal:
            return n
    return -1


@njit(cache=True, nogil=True)
def read_objects(  # type: ignore[no-untyped-def]
    data, size, names, bounds, owners, nodes, columns, items, kinds, scales, minima, maxima, stack,
    starts, lengths, ints, floats, valid, lines, faults, slow,
):  # fmt: skip
    """Read the projected fields of the objects of all lines; `data` has `size` bytes and padding.

    Objects and lists whose parts matter are nodes, the row is node 0. Name n lies in `names` from `bounds[n]` to
    `bounds[n + 1]` and is wanted in the objects of node `owners[n]` or, if `items[n]` is not negative, is that item
    in its lists: its value is the node `nodes[n]` or, if that is 0, the column `columns[n]`, which is the first one
    below a node. Returns the numbers of good rows, of bad rows, and of doubles that need a slower parser;
    `text.RowBuffers` describes the output arrays. A blank line is not a row.
    """
    row = good = bad = slow_count = 0
    last_rows = np.full(kinds.size, -1, np.int64)  # in which a column had a value
    last_node_rows = np.full(nodes.size + 1, -1, np.int64)
    parents = np.empty(nodes.size + 1, np.int64)
    ordinals = np.zeros(nodes.size + 1, np.int64)  # of the next item, by level
    has_names, has_items = np.zeros(nodes.size + 1, np.bool_), np.zeros(nodes.size + 1, np.bool_)
    for n in range(owners.size):
        if items[n] < 0:
            has_names[owners[n]] = True
        else:
            has_items[owners[n]] = True
    places = np.empty(_REMEMBERED, np.int64)  # where remembered names lie, from after what precedes them
    sizes = np.empty(_REMEMBERED, np.int64)  # up to their values
    places_nodes = np.empty(_REMEMBERED, np.int64)  # the node of each
    meanings = np.empty(_REMEMBERED, np.int64)  # which of `names` it is
    remembered = 0
    position = 0
    while position < size:
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
            if kinds[c] == _FLOAT:
                floats[c, good] = 0.0
            elif kinds[c] != _TEXT:
                ints[c, good] = 0
            valid[c, good] = False
        node = depth = upcoming = 0
        is_first = True  # nothing of the innermost object was read
        if data[position] == 123:
            position += 1
        else:
            position, broken = -1 - position, np.int64(_NO_OBJECT)
        while position >= 0:
            n = -2
            if depth and stack[depth - 1] == 91:
                position = _skip_blanks(data, position)
                if not (is_first and data[position] == 93):
                    n = _find_item(ordinals[depth], node, owners, items)
                    ordinals[depth] += 1
            else:
                for i in range(upcoming, min(upcoming + _AHEAD, remembered)):
                    if places_nodes[i] == node and _is_same(data, position, places[i], sizes[i]):
                        n = meanings[i]
                        position += sizes[i]
                        upcoming = i + 1
                        break
                if n == -2:
                    before = position
                    position = _skip_blanks(data, position)
                    if not (is_first and data[position] == 125):
                        start = position + 1
                        position, stop, escaped, broken = _scan_key(data, position)
                        if position < 0:
                            break
                        if escaped:
                            stop = _unescape(data, start, stop)
                        n = _find_name(data, start, stop, node, names, bounds, owners, items)
                        position = _skip_blanks(data, position)
                        if not escaped and upcoming < _REMEMBERED:
                            places[upcoming], sizes[upcoming] = before, position - before
                            places_nodes[upcoming], meanings[upcoming] = node, n
                            upcoming += 1
                            remembered = max(remembered, upcoming)
                else:
                    position = _skip_blanks(data, position)
            is_first = False
            byte = data[position]
            enters = n >= 0 and nodes[n] > 0 and (byte == 123 or byte == 91)
            if enters and (has_names[nodes[n]] if byte == 123 else has_items[nodes[n]]):
                if fault == _NONE and last_node_rows[nodes[n]] == row:
                    fault = np.int64(_TWICE - columns[n])
                parents[depth] = node
                stack[depth] = byte
                depth += 1
                ordinals[depth] = 0
                node = nodes[n]
                last_node_rows[node] = row
                is_first = True
                position += 1
                continue
            if n > -2:
                start = position
                end, kind = _scan_plain(data, position)
                escaped = False
                if end:
                    position = end
                elif data[position] == 123 or data[position] == 91:
                    kind = _OTHER
                    position, broken = _scan_nested(data, position, stack, depth)
                else:
                    position, kind, escaped, broken = _scan_scalar(data, position)
                if position < 0:
                    break
            if n >= 0:
                c = columns[n]
                fits = kind == _NULL or (nodes[n] == 0 and (kind == kinds[c] or (kind == _INT and kinds[c] == _FLOAT)))
                stop = position
                if kind == _TEXT and kinds[c] == _FLOAT and nodes[n] == 0:
                    last = _unescape(data, start + 1, position - 1) if escaped else position - 1
                    if _is_named_number(data, start + 1, last):
                        kind, fits = _FLOAT, True
                        start, stop = start + 1, last
                if nodes[n]:
                    if fault == _NONE and last_node_rows[nodes[n]] == row:
                        fault = np.int64(_TWICE - c)
                    last_node_rows[nodes[n]] = row
                elif fault == _NONE and last_rows[c] == row:
                    fault = np.int64(_TWICE - c)
                elif kinds[c] > _OTHER and kind != _NULL:
                    fits = _has_kind(data, start, kind, kinds[c])
                    if fits:
                        first = start
                        if kind == _TEXT:
                            first, stop = start + 1, position - 1
                            if escaped:
                                stop = _unescape(data, first, stop)
                        if kinds[c] == BYTES:
                            size_of_bytes = decode_base64(data, first, stop)
                            fits = size_of_bytes >= 0
                            starts[c, good] = first
                            lengths[c, good] = max(size_of_bytes, 0)
                        else:
                            number, fits = parse_value(data, first, stop, kinds[c], scales[c], minima[c], maxima[c])
                            ints[c, good] = number
                            valid[c, good] = True
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
                if nodes[n] == 0:
                    last_rows[c] = row
            is_complete = False
            while True:  # a value, or an empty object or list, has ended
                position = _skip_blanks(data, position)
                if data[position] == 44:
                    position += 1
                    break
                if data[position] != (stack[depth - 1] + 2 if depth else 125):
                    position, broken = -1 - position, np.int64(_NO_OBJECT)
                    break
                position += 1
                is_complete = depth == 0
                if is_complete:
                    break
                depth -= 1
                node = parents[depth]
            if is_complete:
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
