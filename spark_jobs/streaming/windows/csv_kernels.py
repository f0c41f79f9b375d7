"""CSV of which a few fields are wanted: the places of separators without a branch a byte, then only those fields."""

from __future__ import annotations

import numpy as np
from numba import njit

from spark_jobs.streaming.windows.digit_kernels import decimal, whole
from spark_jobs.streaming.windows.words import count_ones, count_zeros, load_8

TEXT, INT, FLOAT = 0, 1, 2
_ONE, _THREE = np.uint64(1), np.uint64(3)
_ONES = np.uint64(0x0101010101010101)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_LINE_ENDS = np.uint64(0x0A0A0A0A0A0A0A0A)
_ROWS_AT_ONCE = 256


@njit(cache=True, nogil=True, inline="always")
def _equal(word, bytes_):  # type: ignore[no-untyped-def]
    """The top bit of each byte that is the same in both words, and no other bit."""
    differ = word ^ bytes_
    return ~(((differ & _LOW_BITS) + _LOW_BITS) | differ | _LOW_BITS)


@njit(cache=True, nogil=True)
def _find(data, at, delimiter, found, places, ends):  # type: ignore[no-untyped-def]
    """Note the places of separators from `at` on, behind `found` that are noted, and which of them end a row.

    Eight bytes at a time, and without a branch that cannot be foretold but for one a row. Stops at the end, or when
    there are enough rows; returns where, how many separators are noted, and how many rows.
    """
    delimiters = _ONES * np.uint64(delimiter)
    found = np.uint64(found)
    rows = np.uint64(0)
    in_words = data.size // 8 * 8
    while at < in_words and rows < np.uint64(_ROWS_AT_ONCE):
        word = load_8(data, at)
        line = _equal(word, _LINE_ENDS)
        marks = line | _equal(word, delimiters)
        while line:
            ends[rows] = found + count_ones(marks & (line ^ (line - _ONE))) - _ONE
            rows += _ONE
            line &= line - _ONE
        count = count_ones(marks)
        for k in range(4):  # more than four in eight bytes are rare; what is written too much is written over
            places[found + np.uint64(k)] = at + np.int64(count_zeros(marks) >> _THREE)
            marks &= marks - _ONE
        for k in range(4, np.int64(count)):
            places[found + np.uint64(k)] = at + np.int64(count_zeros(marks) >> _THREE)
            marks &= marks - _ONE
        found += count
        at += 8
    while at >= in_words and at < data.size:
        byte = data[at]
        if byte == 10 or byte == delimiter:
            places[found] = at
            ends[rows] = found
            rows += np.uint64(byte == 10)
            found += _ONE
        at += 1
    return at, np.int64(found), np.int64(rows)


@njit(cache=True, nogil=True)
def _find_between_quotes(data, delimiter, places, ends):  # type: ignore[no-untyped-def]
    """The same for all rows, where fields may be quoted: what lies in quotes separates nothing."""
    found = 0
    rows = 0
    inside = False
    for i in range(data.size):
        byte = data[i]
        places[found] = i
        ends[rows] = found
        inside ^= byte == 34
        line = (byte == 10) & (not inside)
        found += line | ((byte == delimiter) & (not inside))
        rows += line
    return found, rows


@njit(cache=True, nogil=True)
def read_rows(  # type: ignore[no-untyped-def]
    data,
    delimiter,
    quoted,
    places,
    ends,
    width,
    wanted,
    kinds,
    starts,
    lengths,
    ints,
    floats,
    valid,
    lines,
    faults,
    slow,
):
    """Read the wanted fields of all rows, some rows at a time, so that what is looked at twice is still at hand.

    Returns how many rows are good, how many bad, and how many numbers need a closer look: see `_take`. All -1 if the
    arrays are too short.
    """
    state = np.zeros(5, np.int64)
    if quoted:  # then the arrays are long enough
        found, rows = _find_between_quotes(data, delimiter, places, ends)
        _take(
            data, places, ends, rows, width, wanted, kinds, starts, lengths, ints, floats, valid, lines, faults, slow,
            state,
        )  # fmt: skip
        return state[2], state[3], state[4]
    at = np.int64(0)
    found = np.int64(0)
    while at < data.size:
        if state[2] + state[3] + _ROWS_AT_ONCE + 8 > lines.shape[0]:
            return -1, -1, -1
        at, found, rows = _find(data, at, delimiter, found, places, ends)
        _take(
            data, places, ends, rows, width, wanted, kinds, starts, lengths, ints, floats, valid, lines, faults, slow,
            state,
        )  # fmt: skip
        if rows:
            used = ends[rows - 1] + 1
            for i in range(used, found):
                places[i - used] = places[i]
            found -= used
    return state[2], state[3], state[4]


@njit(cache=True, nogil=True)
def _take(  # type: ignore[no-untyped-def]
    data, places, ends, rows, width, wanted, kinds, starts, lengths, ints, floats, valid, lines, faults, slow, state
):
    """Read the wanted fields of each of the next rows; a row that does not fit goes to `faults`.

    Column c of the wanted has its place in `starts` and `lengths` (texts), `ints`, or `floats`; `valid[c]` is false
    where a number is empty, which is null. `lines` are (row, begin, end) of the good rows, `faults` (row, begin, end,
    wanted column or -1, number of fields), `slow` (wanted column, good row) of numbers that need a closer look. `state`
    is where the next row begins, its number, and how many of each there are.
    """
    begin, row, good, bad, slowly = state
    previous = -1
    for r in range(rows):
        last = ends[r]
        count = last - previous
        end = places[last]
        stop = end - (end > begin and data[end - 1] == 13)
        first = previous + 1
        fault = -1 if count != width else -2
        if stop == begin and count == 1 and width != 1:  # an empty line is no row
            begin = end + 1
            previous = last
            continue
        if fault == -2:
            for c in range(wanted.size):
                field = wanted[c]
                start = begin if field == 0 else places[first + field - 1] + 1
                until = stop if field == width - 1 else places[first + field]
                if until - start >= 2 and data[start] == 34 and data[until - 1] == 34:
                    start += 1
                    until -= 1
                kind = kinds[c]
                if kind == 0:
                    starts[c, good] = start
                    lengths[c, good] = until - start
                elif start == until:
                    valid[c, good] = False
                    ints[c, good] = 0
                    floats[c, good] = 0.0
                elif kind == 1:
                    number, fits = whole(data, start, until)
                    ints[c, good] = number
                    valid[c, good] = True
                    if not fits:
                        fault = c
                else:
                    value, fits = decimal(data, start, until)
                    floats[c, good] = value
                    valid[c, good] = True
                    if not fits:
                        starts[c, good] = start
                        lengths[c, good] = until - start
                        slow[slowly, 0] = c
                        slow[slowly, 1] = good
                        slowly += 1
        if fault == -2:
            lines[good, 0] = row
            lines[good, 1] = begin
            lines[good, 2] = end
            good += 1
        else:
            while slowly > 0 and slow[slowly - 1, 1] == good:
                slowly -= 1
            faults[bad, 0] = row
            faults[bad, 1] = begin
            faults[bad, 2] = end
            faults[bad, 3] = fault
            faults[bad, 4] = count
            bad += 1
        row += 1
        begin = end + 1
        previous = last
    state[0], state[1], state[2], state[3], state[4] = begin, row, good, bad, slowly


@njit(cache=True, nogil=True)
def undouble(data, starts, lengths):  # type: ignore[no-untyped-def]
    """In quoted texts, write two quotes as one, in place."""
    for i in range(starts.size):
        start = starts[i]
        if lengths[i] < 2 or start == 0 or data[start - 1] != 34:
            continue
        end = start + lengths[i]
        to = start
        at = start
        while at < end:
            data[to] = data[at]
            at += 1 + (data[at] == 34 and at + 1 < end and data[at + 1] == 34)
            to += 1
        lengths[i] = to - start
