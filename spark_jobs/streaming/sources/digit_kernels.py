"""Parsers of numbers and times from digits."""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.bit_intrinsics import load_8

_ONE = np.uint64(1)
_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x4646464646464646)
_TOP_BITS = np.uint64(0x8080808080808080)
_POWERS = 10.0 ** np.arange(17)  # each is exact
_INT_POWERS = 10 ** np.arange(17, dtype=np.int64)
_LIMITS = 9_007_199_254_740_992 // _INT_POWERS


@njit(cache=True, nogil=True, inline="always")
def _parse_eight_digits(data, start, end):  # type: ignore[no-untyped-def]
    """Parse an integer of 1 to 8 digits that ends at 8 or later, all digits at once; also return its validity."""
    padding = np.uint64(8 * (8 - (end - start)))
    low = (_ONE << padding) - _ONE
    word = (load_8(data, end - 8) & ~low) | (_ZEROS & low)
    good = ((word + _ABOVE_NINE) | (word - _ZEROS)) & _TOP_BITS == 0
    word = ((word & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(2561)) >> np.uint64(8)
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    word = ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)
    return np.int64(word), good


@njit(cache=True, nogil=True, inline="always")
def _parse_digits(data, start, end):  # type: ignore[no-untyped-def]
    """Parse an integer of up to 18 digits; also return its validity."""
    length = end - start
    if start >= 8 and 1 <= length <= 16:
        if length <= 8:
            return _parse_eight_digits(data, start, end)
        upper, fits = _parse_eight_digits(data, start, end - 8)
        lower, also = _parse_eight_digits(data, end - 8, end)
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
def parse_int(data, start, end):  # type: ignore[no-untyped-def]
    """Parse an integer with a sign; also return its validity."""
    negative = data[start] == 45
    value, good = _parse_digits(data, start + (negative or data[start] == 43), end)
    return -value if negative else value, good


@njit(cache=True, nogil=True)
def parse_int_exactly(data, start, end):  # type: ignore[no-untyped-def]
    """Parse a 64-bit integer with sign, any digits and surrounding blanks, slower; also return its validity."""
    while start < end and (data[start] == 32 or data[start] == 9):
        start += 1
    while start < end and (data[end - 1] == 32 or data[end - 1] == 9):
        end -= 1
    negative = start < end and data[start] == 45
    if start < end and (negative or data[start] == 43):
        start += 1
    good = start < end
    value = np.uint64(0)
    digits = 0
    while start < end and good:
        digit = np.int64(data[start]) - 48
        digits += digits > 0 or digit != 0
        good = 0 <= digit <= 9 and digits <= 19
        value = value * np.uint64(10) + np.uint64(digit)
        start += 1
    good = good and value <= np.uint64(0x7FFFFFFFFFFFFFFF) + np.uint64(negative)
    return np.int64(np.uint64(0) - value) if negative else np.int64(value), good


@njit(cache=True, nogil=True, inline="always")
def parse_decimal(data, start, end):  # type: ignore[no-untyped-def]
    """Parse a decimal number; also return whether it is exact here: at most 2^53, and at most 16 decimal places."""
    negative = data[start] == 45
    begin = start + (negative or data[start] == 43)
    point = end - 1
    while point >= begin and data[point] != 46 and end - point <= 17:
        point -= 1
    if point < begin or data[point] != 46:
        value, good = _parse_digits(data, begin, end)
        places = 0
    else:
        places = end - 1 - point
        value, good = _parse_digits(data, begin, point)
        if places > 0 and good:
            rest, good = _parse_digits(data, point + 1, end)
            good = good and places <= 16 and value < _LIMITS[min(places, 16)]
            value = value * _INT_POWERS[min(places, 16)] + rest
    good = good and value <= 9_007_199_254_740_992
    result = np.float64(value) / _POWERS[places] if good else np.nan
    return -result if negative else result, good


@njit(cache=True, nogil=True, inline="always")
def _parse_fixed_digits(data, start, count):  # type: ignore[no-untyped-def]
    """Parse an integer of exactly `count` digits; negative if it is invalid."""
    value = np.int64(0)
    for i in range(start, start + count):
        digit = np.int64(data[i]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
    return value


@njit(cache=True, nogil=True)
def read_times(data, starts, lengths, times, good):  # type: ignore[no-untyped-def]
    """Parse `2013-01-31`, `2013-01-31 23:59`, `2013-01-31T23:59:59.123456789+01:00` to microseconds since 1970.

    A time without an offset is UTC. Digits beyond microseconds are cut off.
    """
    for i in range(starts.size):
        good[i] = False
        times[i] = 0
        start = starts[i]
        end = start + lengths[i]
        if lengths[i] < 10:
            continue
        year, month, day = (
            _parse_fixed_digits(data, start, 4),
            _parse_fixed_digits(data, start + 5, 2),
            _parse_fixed_digits(data, start + 8, 2),
        )
        hour = minute = second = fraction = ahead = np.int64(0)
        fits = data[start + 4] == 45 and data[start + 7] == 45
        at = start + 10
        if end - at >= 6 and (data[at] == 32 or data[at] == 84 or data[at] == 116):  # blank, T, t
            hour, minute = _parse_fixed_digits(data, at + 1, 2), _parse_fixed_digits(data, at + 4, 2)
            fits &= data[at + 3] == 58
            at += 6
            if end - at >= 3 and data[at] == 58:
                second = _parse_fixed_digits(data, at + 1, 2)
                at += 3
                if end - at >= 2 and (data[at] == 46 or data[at] == 44):  # point, comma
                    first = at + 1
                    at = first
                    while at < end and 48 <= data[at] <= 57:
                        if at - first < 6:
                            fraction = fraction * 10 + np.int64(data[at]) - 48
                        at += 1
                    fits &= 1 <= at - first <= 9
                    for _ in range(6 - (at - first)):
                        fraction *= 10
            if end - at >= 3 and (data[at] == 43 or data[at] == 45):  # +01:00, +0100, +01
                negative = data[at] == 45
                hours, minutes = _parse_fixed_digits(data, at + 1, 2), np.int64(0)
                at += 3
                if end - at >= 2:
                    at += data[at] == 58
                    minutes = _parse_fixed_digits(data, at, 2) if end - at == 2 else np.int64(-1)
                    at += 2
                fits &= 0 <= hours <= 23 and 0 <= minutes <= 59
                ahead = -(hours * 60 + minutes) if negative else hours * 60 + minutes
                fits &= at == end  # so that no Z follows
        at += at < end and (data[at] == 90 or data[at] == 122)  # Z, z
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        longest = 30 + ((month + month // 8) & 1) if month != 2 else 28 + leap
        fits &= at == end and year >= 1 and 1 <= month <= 12 and 1 <= day <= longest
        fits &= 0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59
        if fits:
            y = year - (month <= 2)  # days of the civil calendar since 1970, with years that begin in March
            era = y // 400
            of_era = y - era * 400
            of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
            days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
            times[i] = ((days * 24 + hour) * 60 + minute - ahead) * 60_000_000 + second * 1_000_000 + fraction
            good[i] = True
