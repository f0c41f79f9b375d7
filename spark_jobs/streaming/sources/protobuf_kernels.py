"""Protobuf kernel: tables, compiled from message types, say which fields of a record are read, and how.

A table has one entry for each field that is read, sorted by its key (the number of the field and its wire type, as they
are in a record); whatever has another key is skipped. What is read lies within the record: a record that ends early, or
has a key that is none, is a fault.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.sources.field_types import FLOAT as FLOAT_COLUMN
from springline.spark_jobs.streaming.sources.value_kernels import (
    big_endian,
    is_utf8,
    parse_value,
    scale_double,
    scale_number,
)

# Operations of entries, with what their operand is: of integers the power of ten to the number in the column.
SKIP = 0
INT64, INT32, UINT32, UINT64, SINT = 1, 2, 3, 4, 5  # varints
FIXED32, SFIXED32, FIXED64, SFIXED64 = 6, 7, 8, 9
FLOAT, DOUBLE = 10, 11
TEXT, PARSED_TEXT, BYTES = 12, 13, 14  # PARSED_TEXT: a decimal, a date or a timestamp as text
ENUM = 15  # the first of its symbols; the number of them in `sizes`
RECORD = 16  # the table of its type
TIMESTAMP, DECIMAL = 17, 18  # records that are values
BOOL = 22
LIST = 19  # the table of each item, whose only entry reads it, in `targets`; the last is that of all further ones
PACKED = 20  # the key of its items
MISMATCH = 21  # a value of another type than that of the column

# Codes of faults; 0 or more is the column of which the value is none of its type.
GOOD, ENDS, NO_KEY, LONG_NUMBER, OUT_OF_RANGE, NO_UTF8 = -1, -2, -3, -4, -5, -6
VARINT, BITS64, LENGTH, GROUP, END_GROUP, BITS32 = 0, 1, 2, 3, 4, 5  # wire types
MAX_LEVELS = 64  # of records and groups
LONG_HEADER = -1

_ONE, _LOW_32 = np.uint64(1), np.int64(0xFFFFFFFF)
_NANOS = 1_000_000_000
_MIN_SECONDS, _MAX_SECONDS = -62_135_596_800, 253_402_300_799  # years 1 to 9999


@njit(cache=True, nogil=True)
def _varint(data, position, end):  # type: ignore[no-untyped-def]
    """Read a number of at most 64 bits, the highest as its sign; returns it and the position after it; -1: none."""
    if position < end and data[position] < 128:
        return np.int64(data[position]), position + 1
    number, shift = np.int64(0), np.int64(0)
    while position < end and shift < 64:
        byte = np.int64(data[position])
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
    return np.int64(0), np.int64(-1)


@njit(cache=True, nogil=True)
def _skip_group(data, position, end, key, open_groups):  # type: ignore[no-untyped-def]
    """Return the position after the group that a key starts; -1: it does not end, or not as it should."""
    levels = 0
    open_groups[0] = key >> 3
    while True:
        inner, position = _varint(data, position, end)
        if position < 0 or inner < 8 or inner > 0xFFFFFFFF:
            return np.int64(-1)
        wire = inner & 7
        if wire == VARINT:
            _, position = _varint(data, position, end)
            if position < 0:
                return np.int64(-1)
        elif wire == LENGTH:
            length, position = _varint(data, position, end)
            if position < 0 or length < 0 or length > end - position:
                return np.int64(-1)
            position += length
        elif wire in (BITS64, BITS32):
            position += 8 if wire == BITS64 else 4
            if position > end:
                return np.int64(-1)
        elif wire == GROUP:
            levels += 1
            if levels == MAX_LEVELS:
                return np.int64(-1)
            open_groups[levels] = inner >> 3
        elif wire == END_GROUP:
            if open_groups[levels] != inner >> 3:
                return np.int64(-1)
            if levels == 0:
                return position
            levels -= 1
        else:
            return np.int64(-1)


@njit(cache=True, nogil=True)
def _read_parts(data, position, end):  # type: ignore[no-untyped-def]
    """Read a record of few fields: returns the numbers of its fields 1 to 3, where the bytes of field 1 begin and end,
    and whether it is a record.
    """
    numbers = (np.int64(0), np.int64(0), np.int64(0))
    begin = stop = np.int64(0)
    open_groups = np.empty(MAX_LEVELS, np.int64)
    while position < end:
        key, position = _varint(data, position, end)
        if position < 0 or key < 8 or key > 0xFFFFFFFF:
            return numbers, begin, stop, False
        wire, field = key & 7, key >> 3
        if wire == VARINT:
            number, position = _varint(data, position, end)
            if position < 0:
                return numbers, begin, stop, False
            first, second, third = numbers
            numbers = (
                number if field == 1 else first, number if field == 2 else second, number if field == 3 else third
            )  # fmt: skip
        elif wire == LENGTH:
            length, position = _varint(data, position, end)
            if position < 0 or length < 0 or length > end - position:
                return numbers, begin, stop, False
            if field == 1:
                begin, stop = np.int64(position), np.int64(position + length)
            position += length
        elif wire in (BITS64, BITS32):
            position += 8 if wire == BITS64 else 4
        elif wire == GROUP:
            position = _skip_group(data, position, end, key, open_groups)
            if position < 0:
                return numbers, begin, stop, False
        else:
            return numbers, begin, stop, False
    return numbers, begin, stop, position == end


@njit(cache=True, nogil=True)
def _timestamp(data, position, end):  # type: ignore[no-untyped-def]
    """Return a `google.protobuf.Timestamp` in microseconds, rounded down, and whether it is one."""
    (seconds, nanos, _), _, _, good = _read_parts(data, position, end)
    nanos = np.int64(np.int32(nanos & _LOW_32))
    if not good or not _MIN_SECONDS <= seconds <= _MAX_SECONDS or not 0 <= nanos < _NANOS:
        return np.int64(0), False
    return seconds * 1_000_000 + nanos // 1_000, True


@njit(cache=True, nogil=True)
def _decimal(data, position, end, scale, kind, low, high):  # type: ignore[no-untyped-def]
    """Return a `confluent.type.Decimal` times 10^scale, and whether it is one of a column's values."""
    (_, _, own), begin, stop, good = _read_parts(data, position, end)
    number, fits = big_endian(data, begin, stop)
    if not good or not fits:
        return np.int64(0), False
    return scale_number(number, scale - np.int64(np.int32(own & _LOW_32)), kind, low, high)


@njit(cache=True, nogil=True)
def read_headers(data, starts, ends, ids, types, begins):  # type: ignore[no-untyped-def]
    """Read which message type each record is of, after the id of its schema, and where its content begins.

    The type is a path of indices: 0 for the first type of the file, else the bytes of the path, the first one lowest;
    `LONG_HEADER` if they are more than seven, or the message ends before.
    """
    for record in range(starts.size):
        types[record] = 0
        begins[record] = starts[record]
        if ids[record] < 0:
            continue
        first = starts[record] + 5
        count, position = _varint(data, first, ends[record])
        many = count >> 1  # from zigzag encoding
        for _ in range(many if many < 8 else 8):
            if position >= 0:
                _, position = _varint(data, position, ends[record])
        if position < 0 or position - first > 7 or count < 0 or count & 1:
            types[record] = LONG_HEADER
            continue
        begins[record] = position
        if count:
            for at in range(first, position):
                types[record] |= np.int64(data[at]) << (8 * (at - first))


@njit(cache=True, nogil=True)
def _enter(  # type: ignore[no-untyped-def]
    table, record, tables, defaults, default_columns, default_texts, symbol_starts, symbol_lengths, good, starts,
    lengths, ints, floats, valid, entered, counts,
):  # fmt: skip
    """Note that a record has a part of this table, and set the fields that are not null where they are missing."""
    entered[table] = record
    for at in range(tables[table], tables[table + 1]):
        counts[at] = 0
    for at in range(defaults[table], defaults[table + 1]):
        c = default_columns[at]
        ints[c, good] = 0
        floats[c, good] = 0.0
        valid[c, good] = True
        symbol = default_texts[at]
        starts[c, good] = symbol_starts[symbol] if symbol >= 0 else 0
        lengths[c, good] = symbol_lengths[symbol] if symbol >= 0 else 0


@njit(cache=True, nogil=True)
def read_records(  # type: ignore[no-untyped-def]
    data, begins, ends, roots, tables, keys, operations, operands, sizes, columns, clears, clear_columns,
    clear_tables, defaults, default_columns, default_texts, targets, symbol_numbers, symbol_starts, symbol_lengths,
    kinds, scales, minima, maxima, starts, lengths, ints, floats, valid, rows, faults,
):  # fmt: skip
    """Read records, each from `begins` to `ends` in `data` by the table of its type in `roots`; below 0: left out.

    The entries of a table are from `tables[t]` to `tables[t + 1]`, its fields without presence those of `defaults`
    likewise, and what an entry clears (other members of its oneof) those of `clears`: a column or, where that is below
    0, a table. Fills the columns of the good records and `rows`, and `faults`, as `RecordBuffers` says; returns the
    numbers of good and of bad records.
    """
    good = bad = 0
    scratch = np.empty(8, np.uint8)
    outer_ends, outer_tables = np.empty(MAX_LEVELS + 1, np.int64), np.empty(MAX_LEVELS + 1, np.int64)
    outer_entries, open_groups = np.empty(MAX_LEVELS + 1, np.int64), np.empty(MAX_LEVELS, np.int64)
    counts = np.zeros(keys.size, np.int64)  # items of each list so far
    entered = np.full(tables.size, -1, np.int64)
    for record in range(begins.size):
        table = roots[record]
        if table < 0:
            continue
        for c in range(valid.shape[0]):
            lengths[c, good] = -1
            ints[c, good] = 0
            floats[c, good] = 0.0
            valid[c, good] = False
        position, end, level, packed = begins[record], ends[record], 0, np.int64(0)
        code, begin = np.int64(GOOD), position
        _enter(table, record, tables, defaults, default_columns, default_texts, symbol_starts, symbol_lengths, good,
               starts, lengths, ints, floats, valid, entered, counts)  # fmt: skip
        at = tables[table]
        while True:
            if position == end:
                if level == 0:
                    break
                level -= 1
                end, table, at = outer_ends[level], outer_tables[level], outer_entries[level]
                packed = np.int64(0)
                continue
            begin, key = position, packed
            if packed == 0:
                key, position = _varint(data, position, end)
            if position < 0 or key < 8 or key > 0xFFFFFFFF:
                code = np.int64(NO_KEY)
                break
            first, last = tables[table], tables[table + 1]
            if at > first and keys[at - 1] >= key:
                at = first
            while at < last and keys[at] < key:
                at += 1
            wire = key & 7
            number, length = np.int64(0), np.int64(0)
            if wire == VARINT:
                number, position = _varint(data, position, end)
                if position < 0:
                    code = np.int64(LONG_NUMBER)
                    break
            elif wire == LENGTH:
                length, position = _varint(data, position, end)
                if position < 0 or length < 0 or length > end - position:
                    code = np.int64(ENDS)
                    break
            elif wire in (BITS64, BITS32):
                length = np.int64(8 if wire == BITS64 else 4)
                if length > end - position:
                    code = np.int64(ENDS)
                    break
                for i in range(length):
                    scratch[i] = data[position + i]
            elif wire == GROUP:
                position = _skip_group(data, position, end, key, open_groups)
                if position < 0:
                    code = np.int64(NO_KEY)
                    break
            else:
                code = np.int64(NO_KEY)
                break
            if at >= last or keys[at] != key:
                position += length
                continue
            for cleared in range(clears[at], clears[at + 1]):
                c = clear_columns[cleared]
                if c >= 0:
                    valid[c, good] = False
                    ints[c, good] = 0
                    floats[c, good] = 0.0
                    lengths[c, good] = -1
                else:
                    entered[clear_tables[cleared]] = -1
            entry = at
            if operations[entry] == LIST:
                item = targets[operands[entry] + min(counts[entry], sizes[entry] - 1)]
                counts[entry] += 1
                if item < 0:
                    position += length
                    continue
                entry = tables[item]
            c, operation = columns[entry], operations[entry]
            if operation == SKIP:
                position += length
                continue
            if operation == MISMATCH:
                code = c
                break
            if operation == PACKED:
                outer_ends[level], outer_tables[level], outer_entries[level] = end, table, at
                level += 1
                end, packed = position + length, operands[entry]
                continue
            if operation == RECORD:
                outer_ends[level], outer_tables[level], outer_entries[level] = end, table, at + 1
                level += 1
                end, table = position + length, operands[entry]
                at = tables[table]
                if entered[table] != record:
                    _enter(table, record, tables, defaults, default_columns, default_texts, symbol_starts,
                           symbol_lengths, good, starts, lengths, ints, floats, valid, entered, counts)  # fmt: skip
                continue
            if operation in (TEXT, BYTES):
                if operation == TEXT and not is_utf8(data, position, position + length):
                    code = np.int64(NO_UTF8)
                    break
                starts[c, good] = position
                lengths[c, good] = length
                position += length
                continue
            if operation == ENUM:
                value = np.int64(np.int32(number & _LOW_32))
                symbol = operands[entry]
                while symbol < operands[entry] + sizes[entry] and symbol_numbers[symbol] != value:
                    symbol += 1
                if symbol == operands[entry] + sizes[entry]:
                    code = np.int64(OUT_OF_RANGE)
                    break
                starts[c, good] = symbol_starts[symbol]
                lengths[c, good] = symbol_lengths[symbol]
                continue
            integer, fits, has_value = number, True, True
            if operation in (FLOAT, DOUBLE):
                real = (
                    np.float64(scratch[:4].view(np.float32)[0]) if operation == FLOAT else scratch.view(np.float64)[0]
                )
                has_value = real == real
                if kinds[c] == FLOAT_COLUMN:
                    floats[c, good] = real
                elif has_value:
                    integer, fits = scale_double(real, scales[c], minima[c], maxima[c])
            elif operation == TIMESTAMP:
                integer, fits = _timestamp(data, position, position + length)
            elif operation == DECIMAL:
                integer, fits = _decimal(data, position, position + length, scales[c], kinds[c], minima[c], maxima[c])
            elif operation == PARSED_TEXT:
                integer, fits = parse_value(
                    data, position, position + length, kinds[c], scales[c], minima[c], maxima[c]
                )
            elif operation == BOOL:
                integer = np.int64(number != 0)
            else:
                if operation == INT32:
                    integer = np.int64(np.int32(number & _LOW_32))
                elif operation == UINT32:
                    integer = number & _LOW_32
                elif operation == SINT:
                    integer = np.int64(np.uint64(number) >> _ONE) ^ -(number & 1)
                elif operation == FIXED32:
                    integer = np.int64(scratch[:4].view(np.uint32)[0])
                elif operation == SFIXED32:
                    integer = np.int64(scratch[:4].view(np.int32)[0])
                elif operation in (FIXED64, SFIXED64):
                    integer = scratch.view(np.int64)[0]
                is_unsigned = operation in (UINT64, FIXED64)
                if kinds[c] == FLOAT_COLUMN:
                    floats[c, good] = np.float64(np.uint64(integer)) if is_unsigned else np.float64(integer)
                else:
                    fits = not is_unsigned or bool(integer >= 0)
                    if fits:
                        integer, fits = scale_number(integer, operands[entry], kinds[c], minima[c], maxima[c])
            if not fits:
                code = c
                break
            ints[c, good] = integer
            valid[c, good] = has_value
            position += length
        if code == GOOD:
            rows[good] = record
            good += 1
        else:
            faults[bad, 0], faults[bad, 1], faults[bad, 2] = record, code, begin
            bad += 1
    return good, bad
