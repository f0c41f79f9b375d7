"""Parsers of values from texts: numbers, decimals, times, conditions and bytes; and the checks of their ranges."""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.bit_intrinsics import load_8
from springline.spark_jobs.streaming.sources.field_types import BOOLEAN, DATE, DECIMAL, INT, TIMESTAMP

_ONE = np.uint64(1)
_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x4646464646464646)
_TOP_BITS = np.uint64(0x8080808080808080)
_POWERS = 10.0 ** np.arange(17)  # each is exact
_INT_POWERS = 10 ** np.arange(19, dtype=np.int64)
_LIMITS = 9_007_199_254_740_992 // _INT_POWERS
_MAX_KEPT = 19  # digits that fit 64 bits without a sign
_MAX_UNSIGNED = np.uint64(18_446_744_073_709_551_615)
_MAX_SIGNED = np.uint64(9_223_372_036_854_775_807)
_TEN = np.uint64(10)
_MAX_64 = np.int64(9_223_372_036_854_775_807)
_MAX_EXPONENT = 100_000  # a greater one counts as this one


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
def _days(year, month, day):  # type: ignore[no-untyped-def]
    """Return a date as days since 1970, and whether it is one."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 30 + ((month + month // 8) & 1) if month != 2 else 28 + leap
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= longest):
        return np.int64(0), False
    y = year - (month <= 2)  # with years that begin in March
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468, True


@njit(cache=True, nogil=True)
def _parse_date(data, start):  # type: ignore[no-untyped-def]
    """Parse the ten bytes of `2013-01-31` to days since 1970; also return their validity."""
    days, good = _days(
        _parse_fixed_digits(data, start, 4),
        _parse_fixed_digits(data, start + 5, 2),
        _parse_fixed_digits(data, start + 8, 2),
    )
    return days, good and data[start + 4] == 45 and data[start + 7] == 45


@njit(cache=True, nogil=True)
def parse_timestamp(data, start, end):  # type: ignore[no-untyped-def]
    """Parse `2013-01-31`, `2013-01-31 23:59`, `2013-01-31T23:59:59.123456789+01:00` to microseconds since 1970.

    A time without an offset is UTC. Digits beyond microseconds are cut off. Also returns the validity.
    """
    if end - start < 10:
        return np.int64(0), False
    days, fits = _parse_date(data, start)
    hour = minute = second = fraction = ahead = np.int64(0)
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
    fits &= at == end and 0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59
    if not fits:
        return np.int64(0), False
    return ((days * 24 + hour) * 60 + minute - ahead) * 60_000_000 + second * 1_000_000 + fraction, True


@njit(cache=True, nogil=True)
def _parse_scaled(data, start, end, scale):  # type: ignore[no-untyped-def]
    """Parse a short number times 10^scale; also return whether it is valid and exact here."""
    negative = data[start] == 45
    begin = start + (negative or data[start] == 43)
    point = end - 1
    while point >= begin and data[point] != 46 and end - point <= 17:
        point -= 1
    places = np.int64(0)
    if point < begin or data[point] != 46:
        value, good = _parse_digits(data, begin, end)
    else:
        places = end - 1 - point
        value, good = _parse_digits(data, begin, point)
    good = good and 0 <= places <= min(scale, 16) and value < _INT_POWERS[18] // _INT_POWERS[max(scale, 0)]
    if good and places > 0:
        rest, good = _parse_digits(data, point + 1, end)
        value = value * _INT_POWERS[places] + rest
    if good:
        value *= _INT_POWERS[scale - places]
    return -value if negative else value, good


@njit(cache=True, nogil=True)
def _parse_scaled_exactly(data, start, end, scale):  # type: ignore[no-untyped-def]
    """Parse any number times 10^scale, slower: with a point, an exponent, surrounding blanks, however many digits.

    Returns it, rounded towards zero; what that cut off (0: nothing, 1: less than half, 2: half, 3: more; negative if
    the number is); whether the number has neither point nor exponent; and its validity, which includes that it fits 64
    bits.
    """
    while start < end and (data[start] == 32 or data[start] == 9):
        start += 1
    while start < end and (data[end - 1] == 32 or data[end - 1] == 9):
        end -= 1
    negative = start < end and data[start] == 45
    at = start + (start < end and (negative or data[start] == 43))
    value = np.uint64(0)
    significant, power = 0, scale
    has_digits = has_point = cut = False
    while at < end and (48 <= data[at] <= 57 or (data[at] == 46 and not has_point)):
        if data[at] == 46:
            has_point = True
        elif significant < _MAX_KEPT:
            has_digits = True
            value = value * _TEN + np.uint64(data[at] - 48)
            significant += significant > 0 or data[at] != 48
            power -= has_point
        else:
            cut |= data[at] != 48
            power += not has_point
        at += 1
    good, is_whole = has_digits, not has_point
    if good and at < end and (data[at] == 101 or data[at] == 69):
        is_whole = False
        at += 1
        is_less = at < end and data[at] == 45
        at += at < end and (is_less or data[at] == 43)
        first, exponent = at, 0
        while at < end and 48 <= data[at] <= 57:
            exponent = min(exponent * 10 + int(data[at]) - 48, _MAX_EXPONENT)
            at += 1
        good = at > first
        power += -exponent if is_less else exponent
    good = good and at == end
    rest = 1 if cut else 0
    if value > 0 and power > 0:
        good &= not cut
        for _ in range(min(power, _MAX_KEPT + 1)):
            if value > _MAX_UNSIGNED // _TEN:
                good = False
            value *= _TEN
    elif value > 0 and power < 0:
        divisor = np.uint64(1)
        for _ in range(min(-power, _MAX_KEPT)):
            divisor *= _TEN
        below = value % divisor if power >= -_MAX_KEPT else value
        value = value // divisor if power >= -_MAX_KEPT else np.uint64(0)
        if power < -_MAX_KEPT or 0 < below < divisor - below:
            rest = 1
        elif below > 0:
            rest = 2 if below == divisor - below and not cut else 3
    if value > _MAX_SIGNED:
        good = False
    if negative:
        return -np.int64(value), -rest, is_whole, good
    return np.int64(value), rest, is_whole, good


@njit(cache=True, nogil=True)
def _parse_boolean(data, start, end):  # type: ignore[no-untyped-def]
    """Parse `true`, `t` or `1`, or the opposites, in any case; also return the validity."""
    size = end - start
    first = data[start] | 32 if size else 0
    if size == 1:
        return np.int64(first == 116 or data[start] == 49), first == 116 or first == 102 or 48 <= data[start] <= 49
    word = np.uint32(0)
    for i in range(start, min(start + 4, end)):
        word = (word << np.uint32(8)) | np.uint32(data[i] | 32)
    if size == 4 and word == np.uint32(0x74727565):  # true
        return np.int64(1), True
    return np.int64(0), size == 5 and word == np.uint32(0x66616C73) and data[start + 4] | 32 == 101  # fals, e


@njit(cache=True, nogil=True)
def parse_value(data, start, end, kind, scale, low, high):  # type: ignore[no-untyped-def]
    """Parse a value of a type that lies in a column as an integer (see `ColumnTypes`); also return its validity.

    A decimal must be exact. A timestamp that is a number is rounded to the nearest microsecond if it has a point or an
    exponent, and down otherwise.
    """
    if kind == TIMESTAMP:
        value, good = parse_timestamp(data, start, end)
    elif kind == DATE:
        value, good = np.int64(0), False
        if end - start == 10:
            value, good = _parse_date(data, start)
    elif kind == BOOLEAN:
        value, good = _parse_boolean(data, start, end)
    else:
        value, good = np.int64(0), False
        if start < end:
            value, good = _parse_scaled(data, start, end, scale)
        if not good:
            value, rest, is_whole, good = _parse_scaled_exactly(data, start, end, scale)
            if kind == DECIMAL:
                good &= rest == 0
            elif is_whole:
                value -= rest < 0
            elif abs(rest) == 3 or (abs(rest) == 2 and value & 1):
                value += 1 if rest > 0 else -1
    return value, good and low <= value <= high


@njit(cache=True, nogil=True)
def scale_number(number, power, kind, low, high):  # type: ignore[no-untyped-def]
    """Return a number times 10^power for a column of that type, rounded down, and whether it is one of its values.

    A decimal must be exact.
    """
    good = True
    if power > 0:
        times = _INT_POWERS[min(power, 18)]
        good = number == 0 or (power <= 18 and -(_MAX_64 // times) <= number <= _MAX_64 // times)
        number = number * times if good else np.int64(0)
    elif power < 0:
        divisor = _INT_POWERS[min(-power, 18)]
        quotient = number // divisor if power >= -18 else np.int64(-1 if number < 0 else 0)
        good = kind != DECIMAL or (number == 0 or (power >= -18 and quotient * divisor == number))
        number = quotient
    return number, good and low <= number <= high


@njit(cache=True, nogil=True)
def scale_double(number, scale, low, high):  # type: ignore[no-untyped-def]
    """Return a double times 10^scale, rounded to the nearest integer, and whether it is one of a column's values."""
    scaled = np.rint(number * 10.0**scale)
    if not -9.2e18 < scaled < 9.2e18:
        return np.int64(0), False
    return np.int64(scaled), low <= np.int64(scaled) <= high


@njit(cache=True, nogil=True)
def big_endian(data, start, end):  # type: ignore[no-untyped-def]
    """Return a two's complement number of any number of bytes, the highest first, and whether it fits 64 bits."""
    if start == end:
        return np.int64(0), False
    filler = np.uint8(255 if data[start] >= 128 else 0)
    value = np.int64(-1 if filler else 0)
    good = True
    for at in range(start, end):
        if end - at > 8:
            good &= data[at] == filler
        else:
            value = np.int64(np.uint64(value) << np.uint64(8) | np.uint64(data[at]))
    return value, good and (end - start <= 8 or (value < 0) == (filler != 0))


@njit(cache=True, nogil=True)
def is_utf8(data, position, end):  # type: ignore[no-untyped-def]
    """Return whether bytes are UTF-8: the shortest forms only, no surrogates, nothing beyond U+10FFFF."""
    while position < end:
        byte = data[position]
        position += 1
        if byte < 0x80:
            continue
        least, greatest = np.uint8(0x80), np.uint8(0xBF)  # of the second byte
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
            if byte == 0xE0:
                least = np.uint8(0xA0)
            elif byte == 0xED:
                greatest = np.uint8(0x9F)
        elif 0xF0 <= byte <= 0xF4:
            more = 3
            if byte == 0xF0:
                least = np.uint8(0x90)
            elif byte == 0xF4:
                greatest = np.uint8(0x8F)
        else:
            return False
        if position + more > end:
            return False
        for _ in range(more):
            if data[position] < least or data[position] > greatest:
                return False
            least, greatest = np.uint8(0x80), np.uint8(0xBF)
            position += 1
    return True


@njit(cache=True, nogil=True)
def _base64_digit(byte):  # type: ignore[no-untyped-def]
    if 65 <= byte <= 90:
        return np.int64(byte) - 65
    if 97 <= byte <= 122:
        return np.int64(byte) - 71
    if 48 <= byte <= 57:
        return np.int64(byte) + 4
    if byte == 43 or byte == 45:  # plus, minus
        return np.int64(62)
    return np.int64(63 if byte == 47 or byte == 95 else -1)  # slash, underscore


@njit(cache=True, nogil=True)
def decode_base64(data, start, end):  # type: ignore[no-untyped-def]
    """Decode base64 (RFC 4648, of either alphabet, with or without padding) in place; returns the number of bytes.

    It is negative if the text is none.
    """
    if (end - start) % 4 == 0:
        for _ in range(2):
            end -= end > start and data[end - 1] == 61
    if (end - start) % 4 == 1:
        return np.int64(-1)
    to, word, bits = start, np.int64(0), 0
    for at in range(start, end):
        digit = _base64_digit(data[at])
        if digit < 0:
            return np.int64(-1)
        word = ((word << 6) | digit) & 0xFFFF
        bits += 6
        if bits >= 8:
            bits -= 8
            data[to] = (word >> bits) & 0xFF
            to += 1
    return np.int64(to - start) if word & ((1 << bits) - 1) == 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def parse_values(data, starts, lengths, kind, scale, low, high, values, good):  # type: ignore[no-untyped-def]
    """Parse texts of one type that lies in a column as an integer; one that is null is good and 0."""
    for i in range(starts.size):
        values[i], good[i] = np.int64(0), True
        if lengths[i] >= 0 and kind == INT:
            values[i], good[i] = parse_int_exactly(data, starts[i], starts[i] + lengths[i])
        elif lengths[i] >= 0:
            values[i], good[i] = parse_value(data, starts[i], starts[i] + lengths[i], kind, scale, low, high)


@njit(cache=True, nogil=True)
def check_texts(data, starts, lengths, good):  # type: ignore[no-untyped-def]
    """Check which texts are UTF-8, or null."""
    for i in range(starts.size):
        good[i] = lengths[i] < 0 or is_utf8(data, starts[i], starts[i] + lengths[i])


@njit(cache=True, nogil=True)
def scale_numbers(numbers, power, kind, low, high, values, good):  # type: ignore[no-untyped-def]
    """Apply `scale_number` to each number."""
    for i in range(numbers.size):
        values[i], good[i] = scale_number(numbers[i], power, kind, low, high)


@njit(cache=True, nogil=True)
def scale_doubles(numbers, scale, low, high, values, good):  # type: ignore[no-untyped-def]
    """Apply `scale_double` to each number."""
    for i in range(numbers.size):
        values[i], good[i] = scale_double(numbers[i], scale, low, high)


def parse_double(text: bytearray) -> float | None:
    """Parse a double, also `inf` and `nan`; None if it is invalid or exceeds the range of doubles."""
    text = text.strip(b" \t")
    if b"_" in text or text.strip() != text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return None if value in (float("inf"), float("-inf")) and b"n" not in text.lower() else value
