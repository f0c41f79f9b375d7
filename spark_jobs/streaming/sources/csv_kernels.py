"""CSV kernels for few of many fields: find separators with no branch per byte, then read only the projected fields."""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.bit_intrinsics import count_ones, count_zeros, load_8
from springline.spark_jobs.streaming.sources.field_types import BYTES, FLOAT, INT, TEXT
from springline.spark_jobs.streaming.sources.value_kernels import (
    decode_base64,
    parse_decimal,
    parse_int,
    parse_int_exactly,
    parse_value,
)

_ONE, _THREE = np.uint64(1), np.uint64(3)
_ONES = np.uint64(0x0101010101010101)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_LINE_ENDS = np.uint64(0x0A0A0A0A0A0A0A0A)
_ROWS_AT_ONCE = 256
_NONE, _WIDTH, _QUOTE = -8, -1, -2  # faults of a row that are not columns, see `text`


@njit(cache=True, nogil=True, inline="always")
def _equal_bytes(word, bytes_):  # type: ignore[no-untyped-def]
    """Return a word with the top bit set of each byte that is equal in both words, and no other bit."""
    differ = word ^ bytes_
    return ~(((differ & _LOW_BITS) + _LOW_BITS) | differ | _LOW_BITS)


@njit(cache=True, nogil=True)
def _find_separators(data, position, delimiter, separators, places, ends):  # type: ignore[no-untyped-def]
    """Append the positions of separators from `position` on to `places`, and note which ones end a row.

    The first `separators` entries of `places` are filled already. It reads eight bytes at a time, with only one
    unpredictable branch per row. It stops at the end of the data, or when there are enough rows. Returns the position
    reached, the number of separators, and the number of rows.
    """
    delimiters = _ONES * np.uint64(delimiter)
    separators = np.uint64(separators)
    rows = np.uint64(0)
    in_words = data.size // 8 * 8
    while position < in_words and rows < np.uint64(_ROWS_AT_ONCE):
        word = load_8(data, position)
        line = _equal_bytes(word, _LINE_ENDS)
        marks = line | _equal_bytes(word, delimiters)
        while line:
            ends[rows] = separators + count_ones(marks & (line ^ (line - _ONE))) - _ONE
            rows += _ONE
            line &= line - _ONE
        count = count_ones(marks)
        for k in range(4):  # more than four per eight bytes are rare; excess writes are overwritten
            places[separators + np.uint64(k)] = position + np.int64(count_zeros(marks) >> _THREE)
            marks &= marks - _ONE
        for k in range(4, np.int64(count)):
            places[separators + np.uint64(k)] = position + np.int64(count_zeros(marks) >> _THREE)
            marks &= marks - _ONE
        separators += count
        position += 8
    while position >= in_words and position < data.size:
        byte = data[position]
        if byte == 10 or byte == delimiter:
            places[separators] = position
            ends[rows] = separators
            rows += np.uint64(byte == 10)
            separators += _ONE
        position += 1
    return position, np.int64(separators), np.int64(rows)


@njit(cache=True, nogil=True)
def _find_quoted_separators(data, limits, delimiter, places, ends):  # type: ignore[no-untyped-def]
    """Find separators for all rows of messages that end at `limits`, where fields may be quoted.

    A field is quoted if it begins with a quote: nothing between that quote and the next single one is a separator, and
    the field ends after the second quote. If it does not end there, or the message has no second quote, the row is
    invalid and ends with its first line; its end is then stored as a negative number.
    """
    separators = 0
    rows = 0
    position = 0
    for limit in limits:
        while position < limit:
            begin = position
            first = separators
            fits = True
            ended = False
            while fits and not ended:
                if data[position] == 34:
                    position += 1
                    while position < limit and (
                        data[position] != 34 or (position + 1 < limit and data[position + 1] == 34)
                    ):
                        position += 1 + (data[position] == 34)
                    position += 1
                    if position + 1 < limit and data[position] == 13 and data[position + 1] == 10:
                        position += 1
                    fits = position < limit and (data[position] == delimiter or data[position] == 10)
                else:
                    while data[position] != delimiter and data[position] != 10:  # every message ends with a line end
                        position += 1
                if fits:
                    places[separators] = position
                    separators += 1
                    ended = data[position] == 10
                    position += 1
            if not fits:
                position = begin
                while data[position] != 10:
                    position += 1
                places[first] = position
                separators = first + 1
                position += 1
            ends[rows] = separators - 1 if fits else -separators
            rows += 1
    return separators, rows


@njit(cache=True, nogil=True)
def read_rows(  # type: ignore[no-untyped-def]
    data,
    delimiter,
    quoted,
    limits,
    places,
    ends,
    width,
    field_indices,
    kinds,
    scales,
    minima,
    maxima,
    starts,
    lengths,
    ints,
    floats,
    valid,
    lines,
    faults,
    slow,
):
    """Read the projected fields of all rows, in blocks of rows that stay in the CPU cache.

    The messages end at `limits`, each with a line end. Returns the numbers of good rows, of bad rows, and of doubles
    that need a slower parser; `text.RowBuffers` describes the output arrays. `places` must have room for each byte,
    `ends` and the other arrays for each line.
    """
    state = np.zeros(5, np.int64)
    if quoted:
        separators, rows = _find_quoted_separators(data, limits, delimiter, places, ends)
        _read_fields(
            data, places, ends, rows, width, field_indices, kinds, scales, minima, maxima, starts,
            lengths, ints, floats, valid, lines, faults,
            slow,
            state,
        )  # fmt: skip
        return state[2], state[3], state[4]
    position = np.int64(0)
    separators = np.int64(0)
    while position < data.size:
        position, separators, rows = _find_separators(data, position, delimiter, separators, places, ends)
        _read_fields(
            data, places, ends, rows, width, field_indices, kinds, scales, minima, maxima, starts,
            lengths, ints, floats, valid, lines, faults,
            slow,
            state,
        )  # fmt: skip
        if rows:
            used = ends[rows - 1] + 1
            for i in range(used, separators):
                places[i - used] = places[i]
            separators -= used
    return state[2], state[3], state[4]


@njit(cache=True, nogil=True)
def _read_fields(  # type: ignore[no-untyped-def]
    data,
    places,
    ends,
    rows,
    width,
    field_indices,
    kinds,
    scales,
    minima,
    maxima,
    starts,
    lengths,
    ints,
    floats,
    valid,
    lines,
    faults,
    slow,
    state,
):
    """Read the projected fields of each of the next rows; an invalid row is added to `faults`.

    `state` holds the start of the next row, its number, and the numbers of good rows, bad rows and slow doubles.
    """
    begin, row, good, bad, slow_count = state
    previous = -1
    for r in range(rows):
        open_quote = ends[r] < 0
        last = -1 - ends[r] if open_quote else ends[r]
        count = last - previous
        end = places[last]
        stop = end - (end > begin and data[end - 1] == 13)
        first = previous + 1
        if stop == begin and count == 1:  # an empty line is not a row
            begin = end + 1
            previous = last
            continue
        if count == width + 1 and places[last - 1] + 1 == stop:  # a separator after the last field
            count = width
            stop -= 1
        fault = _QUOTE if open_quote else _WIDTH if count != width else _NONE
        detail, detail_length = np.int64(count), np.int64(0)
        if fault == _NONE:
            for c in range(field_indices.size):
                field = field_indices[c]
                start = begin if field == 0 else places[first + field - 1] + 1
                until = stop if field == width - 1 else places[first + field]
                if until - start >= 2 and data[start] == 34 and data[until - 1] == 34:
                    start += 1
                    until -= 1
                kind = kinds[c]
                if kind in (TEXT, BYTES):
                    empty = start == until and (start == 0 or data[start - 1] != 34)
                    starts[c, good] = start
                    lengths[c, good] = -1 if empty else until - start
                    if kind == BYTES and not empty:
                        size = decode_base64(data, start, until)
                        lengths[c, good] = max(size, 0)
                        if size < 0 and fault == _NONE:
                            fault, detail, detail_length = c, np.int64(start), np.int64(until - start)
                elif start == until:
                    valid[c, good] = False
                    ints[c, good] = 0
                    floats[c, good] = 0.0
                elif kind == INT:
                    number, fits = parse_int(data, start, until)
                    if not fits:
                        number, fits = parse_int_exactly(data, start, until)
                    ints[c, good] = number
                    valid[c, good] = True
                    if not fits and fault == _NONE:
                        fault, detail, detail_length = c, np.int64(start), np.int64(until - start)
                elif kind != FLOAT:
                    number, fits = parse_value(data, start, until, kind, scales[c], minima[c], maxima[c])
                    ints[c, good] = number
                    valid[c, good] = True
                    if not fits and fault == _NONE:
                        fault, detail, detail_length = c, np.int64(start), np.int64(until - start)
                else:
                    value, fits = parse_decimal(data, start, until)
                    floats[c, good] = value
                    valid[c, good] = True
                    if not fits:
                        starts[c, good] = start
                        lengths[c, good] = until - start
                        slow[slow_count, 0] = c
                        slow[slow_count, 1] = good
                        slow_count += 1
        if fault == _NONE:
            lines[good, 0] = row
            lines[good, 1] = begin
            lines[good, 2] = end
            good += 1
        else:
            while slow_count > 0 and slow[slow_count - 1, 1] == good:
                slow_count -= 1
            faults[bad, 0] = row
            faults[bad, 1] = begin
            faults[bad, 2] = end
            faults[bad, 3] = fault
            faults[bad, 4] = detail
            faults[bad, 5] = detail_length
            bad += 1
        row += 1
        begin = end + 1
        previous = last
    state[0], state[1], state[2], state[3], state[4] = begin, row, good, bad, slow_count


@njit(cache=True, nogil=True)
def unescape_quotes(data, starts, lengths):  # type: ignore[no-untyped-def]
    """Replace doubled quotes by single ones in quoted texts, in place."""
    for i in range(starts.size):
        start = starts[i]
        if lengths[i] < 2 or start == 0 or data[start - 1] != 34:
            continue
        end = start + lengths[i]
        to = start
        position = start
        while position < end:
            data[to] = data[position]
            position += 1 + (data[position] == 34 and position + 1 < end and data[position + 1] == 34)
            to += 1
        lengths[i] = to - start
