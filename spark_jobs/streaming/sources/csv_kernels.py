"""CSV of which a few fields are wanted: the places of separators without a branch a byte, then only those fields."""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.bit_intrinsics import count_ones, count_zeros, load_8
from springline.spark_jobs.streaming.sources.digit_kernels import decimal, whole, whole_exactly

_ONE, _THREE = np.uint64(1), np.uint64(3)
_ONES = np.uint64(0x0101010101010101)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_LINE_ENDS = np.uint64(0x0A0A0A0A0A0A0A0A)
_ROWS_AT_ONCE = 256
_NONE, _WIDTH, _QUOTE = -8, -1, -2  # faults of a row beside its columns: `text_rows`


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
def _find_between_quotes(data, limits, delimiter, places, ends):  # type: ignore[no-untyped-def]
    """The same for all rows of messages that end at `limits`, where fields may be quoted.

    A field is quoted if it begins with a quote: what lies between that and the next single one separates nothing, and
    behind that one the field ends. Where it does not, or no quote comes in this message any more, the row is bad and
    ends with its first line: then its end is noted as below 0.
    """
    found = 0
    rows = 0
    at = 0
    for limit in limits:
        while at < limit:
            begin = at
            first = found
            fits = True
            ended = False
            while fits and not ended:
                if data[at] == 34:
                    at += 1
                    while at < limit and (data[at] != 34 or (at + 1 < limit and data[at + 1] == 34)):
                        at += 1 + (data[at] == 34)
                    at += 1
                    if at + 1 < limit and data[at] == 13 and data[at + 1] == 10:
                        at += 1
                    fits = at < limit and (data[at] == delimiter or data[at] == 10)
                else:
                    while data[at] != delimiter and data[at] != 10:  # a message ends with a line's end
                        at += 1
                if fits:
                    places[found] = at
                    found += 1
                    ended = data[at] == 10
                    at += 1
            if not fits:
                at = begin
                while data[at] != 10:
                    at += 1
                places[first] = at
                found = first + 1
                at += 1
            ends[rows] = found - 1 if fits else -found
            rows += 1
    return found, rows


@njit(cache=True, nogil=True)
def read_rows(  # type: ignore[no-untyped-def]
    data,
    delimiter,
    quoted,
    limits,
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

    The messages end at `limits`, each with a line's end. Returns how many rows are good, how many bad, and how many
    doubles need a closer look: what lies where, `text_rows.Room` tells. `places` has room for each byte, `ends` and the
    other arrays for each line.
    """
    state = np.zeros(5, np.int64)
    if quoted:
        found, rows = _find_between_quotes(data, limits, delimiter, places, ends)
        _take(
            data, places, ends, rows, width, wanted, kinds, starts, lengths, ints, floats, valid, lines, faults, slow,
            state,
        )  # fmt: skip
        return state[2], state[3], state[4]
    at = np.int64(0)
    found = np.int64(0)
    while at < data.size:
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

    `state` is where the next row begins, its number, and how many rows are good and bad, and doubles slow.
    """
    begin, row, good, bad, slowly = state
    previous = -1
    for r in range(rows):
        open_quote = ends[r] < 0
        last = -1 - ends[r] if open_quote else ends[r]
        count = last - previous
        end = places[last]
        stop = end - (end > begin and data[end - 1] == 13)
        first = previous + 1
        if stop == begin and count == 1:  # an empty line is no row
            begin = end + 1
            previous = last
            continue
        if count == width + 1 and places[last - 1] + 1 == stop:  # a separator behind the last field
            count = width
            stop -= 1
        fault = _QUOTE if open_quote else _WIDTH if count != width else _NONE
        told, also = np.int64(count), np.int64(0)
        if fault == _NONE:
            for c in range(wanted.size):
                field = wanted[c]
                start = begin if field == 0 else places[first + field - 1] + 1
                until = stop if field == width - 1 else places[first + field]
                if until - start >= 2 and data[start] == 34 and data[until - 1] == 34:
                    start += 1
                    until -= 1
                kind = kinds[c]
                if kind == 0:
                    empty = start == until and (start == 0 or data[start - 1] != 34)
                    starts[c, good] = start
                    lengths[c, good] = -1 if empty else until - start
                elif start == until:
                    valid[c, good] = False
                    ints[c, good] = 0
                    floats[c, good] = 0.0
                elif kind == 1:
                    number, fits = whole(data, start, until)
                    if not fits:
                        number, fits = whole_exactly(data, start, until)
                    ints[c, good] = number
                    valid[c, good] = True
                    if not fits and fault == _NONE:
                        fault, told, also = c, np.int64(start), np.int64(until - start)
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
        if fault == _NONE:
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
            faults[bad, 4] = told
            faults[bad, 5] = also
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
