"""CSV of which a few fields are wanted: the places of separators without a branch a byte, then only those fields."""

from __future__ import annotations

import numpy as np
from numba import njit

from spark_jobs.streaming.windows.words import count_ones, count_zeros, load_8

TEXT, INT, FLOAT = 0, 1, 2
_ONE, _THREE = np.uint64(1), np.uint64(3)
_ONES = np.uint64(0x0101010101010101)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_LINE_ENDS = np.uint64(0x0A0A0A0A0A0A0A0A)
_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x4646464646464646)
_TOP_BITS = np.uint64(0x8080808080808080)
_POWERS = 10.0 ** np.arange(17)  # each is exact
_WHOLE_POWERS = 10 ** np.arange(17, dtype=np.int64)


@njit(cache=True, nogil=True, inline="always")
def _equal(word, bytes_):  # type: ignore[no-untyped-def]
    """The top bit of each byte that is the same in both words, and no other bit."""
    differ = word ^ bytes_
    return ~(((differ & _LOW_BITS) + _LOW_BITS) | differ | _LOW_BITS)


@njit(cache=True, nogil=True)
def find_separators(data, delimiter, places, ends):  # type: ignore[no-untyped-def]
    """Note the place of every separator, and which of them end a row; returns the number of rows.

    Eight bytes at a time, and without a branch that cannot be foretold but for one a row.
    """
    delimiters = _ONES * np.uint64(delimiter)
    found = np.uint64(0)
    rows = np.uint64(0)
    whole = data.size // 8 * 8
    for at in range(0, whole, 8):
        word = load_8(data, at)
        line = _equal(word, _LINE_ENDS)
        marks = line | _equal(word, delimiters)
        if line:
            before = line
            while before:
                ends[rows] = found + count_ones(marks & (before ^ (before - _ONE))) - _ONE
                rows += _ONE
                before &= before - _ONE
        count = count_ones(marks)
        for k in range(4):  # more than four in eight bytes are rare; what is written too much is written over
            places[found + np.uint64(k)] = at + np.int64(count_zeros(marks) >> _THREE)
            marks &= marks - _ONE
        for k in range(4, np.int64(count)):
            places[found + np.uint64(k)] = at + np.int64(count_zeros(marks) >> _THREE)
            marks &= marks - _ONE
        found += count
    for i in range(whole, data.size):
        byte = data[i]
        if byte == 10 or byte == delimiter:
            places[found] = i
            ends[rows] = found
            rows += np.uint64(byte == 10)
            found += _ONE
    return np.int64(rows)


@njit(cache=True, nogil=True)
def find_separators_between_quotes(data, delimiter, places, ends):  # type: ignore[no-untyped-def]
    """The same where fields may be quoted: what lies in quotes separates nothing."""
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
    return rows


@njit(cache=True, nogil=True, inline="always")
def _eight(data, start, end):  # type: ignore[no-untyped-def]
    """A number of 1 to 8 digits that ends at 8 or later, and whether it is one; all digits at once."""
    padding = np.uint64(8 * (8 - (end - start)))
    low = (_ONE << padding) - _ONE
    word = (load_8(data, end - 8) & ~low) | (_ZEROS & low)
    good = ((word + _ABOVE_NINE) | (word - _ZEROS)) & _TOP_BITS == 0
    word = ((word & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(2561)) >> np.uint64(8)
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    word = ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)
    return np.int64(word), good


@njit(cache=True, nogil=True, inline="always")
def _digits(data, start, end):  # type: ignore[no-untyped-def]
    """A number of up to 18 digits, and whether it is one."""
    length = end - start
    if start >= 8 and 1 <= length <= 16:
        if length <= 8:
            return _eight(data, start, end)
        upper, fits = _eight(data, start, end - 8)
        lower, also = _eight(data, end - 8, end)
        return upper * 100_000_000 + lower, fits and also
    value = np.int64(0)
    good = 1 <= length <= 18
    i = start
    while i < end and good:
        digit = np.int64(data[i]) - 48
        good = 0 <= digit <= 9
        value = value * 10 + digit
        i += 1
    return value, good


@njit(cache=True, nogil=True, inline="always")
def _whole(data, start, end):  # type: ignore[no-untyped-def]
    """A whole number with its sign, and whether it is one."""
    negative = data[start] == 45
    value, good = _digits(data, start + (negative or data[start] == 43), end)
    return -value if negative else value, good


@njit(cache=True, nogil=True, inline="always")
def _decimal(data, start, end):  # type: ignore[no-untyped-def]
    """A number with a point, and whether it is one that can be told exactly here: at most 2^53, at most 16 places."""
    negative = data[start] == 45
    begin = start + (negative or data[start] == 43)
    point = end - 1
    while point >= begin and data[point] != 46 and end - point <= 17:
        point -= 1
    if point < begin or data[point] != 46:
        value, good = _digits(data, begin, end)
        places = 0
    else:
        places = end - 1 - point
        value, good = _digits(data, begin, point)
        if places > 0 and good:
            rest, good = _digits(data, point + 1, end)
            good = good and places <= 16 and value < 9_007_199_254_740_992 // _WHOLE_POWERS[min(places, 16)]
            value = value * _WHOLE_POWERS[min(places, 16)] + rest
    good = good and value <= 9_007_199_254_740_992
    result = np.float64(value) / _POWERS[places] if good else np.nan
    return -result if negative else result, good


@njit(cache=True, nogil=True)
def take_fields(  # type: ignore[no-untyped-def]
    data, places, ends, rows, width, wanted, kinds, starts, lengths, ints, floats, valid, lines, faults, slow
):
    """Read the wanted fields of each row; a row that does not fit goes to `faults`. Returns how many of what.

    Column c of the wanted has its place in `starts` and `lengths` (texts), `ints`, or `floats`; `valid[c]` is false
    where a number is empty, which is null. `lines` are (row, begin, end) of the good rows, `faults` (row, begin, end,
    wanted column or -1, number of fields), `slow` (wanted column, good row) of numbers that need a closer look.
    """
    good = 0
    bad = 0
    slowly = 0
    begin = 0
    previous = -1
    row = 0
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
                    number, fits = _whole(data, start, until)
                    ints[c, good] = number
                    valid[c, good] = True
                    if not fits:
                        fault = c
                else:
                    value, fits = _decimal(data, start, until)
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
    return good, bad, slowly


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


@njit(cache=True, nogil=True, inline="always")
def _fixed(data, start, count):  # type: ignore[no-untyped-def]
    """A number of exactly that many digits; negative if it is none."""
    value = np.int64(0)
    for i in range(start, start + count):
        digit = np.int64(data[i]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
    return value


@njit(cache=True, nogil=True)
def read_times(data, starts, lengths, times, good):  # type: ignore[no-untyped-def]
    """Microseconds since 1970 of `2013-01-31`, `2013-01-31 23:59`, `2013-01-31T23:59:59.123456Z`."""
    for i in range(starts.size):
        good[i] = False
        times[i] = 0
        start = starts[i]
        length = lengths[i]
        if length > 10 and data[start + length - 1] == 90:  # Z
            length -= 1
        if length < 10 or length in (11, 12, 13, 14, 15, 17, 18, 20) or length > 26:
            continue
        year, month, day = _fixed(data, start, 4), _fixed(data, start + 5, 2), _fixed(data, start + 8, 2)
        hour = minute = second = fraction = np.int64(0)
        fits = data[start + 4] == 45 and data[start + 7] == 45
        if length > 10:
            hour, minute = _fixed(data, start + 11, 2), _fixed(data, start + 14, 2)
            fits &= (data[start + 10] == 32 or data[start + 10] == 84) and data[start + 13] == 58
        if length > 16:
            second = _fixed(data, start + 17, 2)
            fits &= data[start + 16] == 58
        if length > 19:
            fraction = _fixed(data, start + 20, length - 20)
            fits &= data[start + 19] == 46 and fraction >= 0
            for _ in range(26 - length):
                fraction *= 10
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        longest = 30 + ((month + month // 8) & 1) if month != 2 else 28 + leap
        fits &= year >= 1 and 1 <= month <= 12 and 1 <= day <= longest
        fits &= 0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59
        if fits:
            y = year - (month <= 2)  # days of the civil calendar since 1970, years beginning in March
            era = y // 400
            of_era = y - era * 400
            of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
            days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
            times[i] = ((days * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000 + fraction
            good[i] = True
