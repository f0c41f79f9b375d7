"""Avro kernel: a program, compiled from the schema that a record was written with, reads the wanted fields of it.

A program is a sequence of operations, each with an operand and a column. Everything that is read is within the record:
a record that ends early, goes on after its end, or has an index out of range is a fault.
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

# Operations, with what their operand is; those that read a value fill the column that goes with them.
END, SKIP, SKIP_VARINT, SKIP_TEXT = 0, 1, 2, 3  # SKIP: a number of bytes
NUMBER = 4  # the power of ten from the integer in the record to the one in the column
REAL = 5  # its bytes: 4 or 8
TEXT, PARSED_TEXT, BYTES = 6, 7, 8  # PARSED_TEXT: a decimal, a date or a timestamp as text
FIXED = 9  # a number of bytes
DECIMAL = 10  # as of NUMBER; in `sizes` the number of bytes, -1: the record says it
BOOLEAN = 11
ENUM = 12  # the first of its symbols; the number of them in `sizes`
UNION = 13  # the first of its branches in `targets`; the number of them in `sizes`
JUMP = 14  # the next operation
MISMATCH = 15  # a value of another type than that of the column
CALL, RETURN = 20, 21  # CALL: the first operation of a record that contains itself; RETURN: to that after the call
LIST, BLOCKS, ITEM, ITEM_END = 16, 17, 18, 19
# LIST precedes BLOCKS if items are read, for which `sizes` of BLOCKS is 1. BLOCKS: the operation after the last item;
# ITEM: what reads each item, in `targets`, and the last of them all further ones; ITEM_END: that of BLOCKS

# Codes of faults; 0 or more is the column of which the value is none of its type.
GOOD, ENDS, GOES_ON, LONG_NUMBER, OUT_OF_RANGE, NO_UTF8, TOO_DEEP = -1, -2, -3, -4, -5, -6, -7
MAX_LEVELS = 1_000  # of lists within lists, and of records that contain themselves

_SEVEN, _ONE, _LOW = np.uint64(7), np.uint64(1), np.uint64(127)


@njit(cache=True, nogil=True, inline="always")
def _varint(data, position, end):  # type: ignore[no-untyped-def]
    """Read a number in zigzag encoding; returns it and the position after it, which is -1 if there is none."""
    number, shift = np.uint64(0), np.uint64(0)
    while position < end and shift < 64:
        byte = np.uint64(data[position])
        position += 1
        number |= (byte & _LOW) << shift
        if byte < 128:
            return np.int64(number >> _ONE) ^ -np.int64(number & _ONE), position
        shift += _SEVEN
    return np.int64(0), np.int64(-1)


@njit(cache=True, nogil=True, inline="always")
def _float(scratch, position, data):  # type: ignore[no-untyped-def]
    """Return the 32-bit float at a position; `scratch` is a place to put its bytes."""
    for i in range(4):
        scratch[i] = data[position + i]
    return np.float64(scratch[:4].view(np.float32)[0])


@njit(cache=True, nogil=True, inline="always")
def _double(scratch, position, data):  # type: ignore[no-untyped-def]
    for i in range(8):
        scratch[i] = data[position + i]
    return scratch.view(np.float64)[0]


@njit(cache=True, nogil=True)
def read_records(  # type: ignore[no-untyped-def]
    data, begins, ends, programs, operations, operands, columns, sizes, targets, symbol_starts, symbol_lengths,
    kinds, scales, minima, maxima, starts, lengths, ints, floats, valid, rows, faults,
):  # fmt: skip
    """Read records, each from `begins` to `ends` in `data` by the program that begins at its operation of `programs`.

    A program below 0 is none: its record is left out. Fills the columns of the good records, one after another, and
    `rows` with which those are; `faults` with (record, code, position) of the others. Returns the numbers of both. A
    text has `lengths` bytes at `starts`, below 0: it is null; numbers are null where `valid` is false.
    """
    good = bad = 0
    scratch = np.empty(8, np.uint8)
    remaining, ordinals, loops = np.empty(MAX_LEVELS, np.int64), np.empty(MAX_LEVELS, np.int64), 0
    returns, calls = np.empty(MAX_LEVELS, np.int64), 0
    for record in range(begins.size):
        at = programs[record]
        if at < 0:
            continue
        for c in range(valid.shape[0]):
            lengths[c, good] = -1
            ints[c, good] = 0
            floats[c, good] = 0.0
            valid[c, good] = False
        position, end = begins[record], ends[record]
        code, begin, loops, calls = np.int64(GOOD), position, 0, 0
        while operations[at] != END:
            operation, c, begin = operations[at], columns[at], position
            if operation == SKIP:
                position += operands[at]
            elif operation == REAL:
                position += operands[at]
                if position <= end:
                    real = _float(scratch, begin, data) if operands[at] == 4 else _double(scratch, begin, data)
                    if kinds[c] == FLOAT_COLUMN:
                        floats[c, good] = real
                        valid[c, good] = real == real
                    elif real == real:
                        ints[c, good], fits = scale_double(real, scales[c], minima[c], maxima[c])
                        valid[c, good] = True
                        if not fits:
                            code = c
                            break
            elif operation == BOOLEAN:
                position += 1
                if position <= end:
                    if data[begin] > 1:
                        code = c
                        break
                    ints[c, good] = data[begin]
                    valid[c, good] = True
            elif operation == FIXED:
                position += operands[at]
                starts[c, good] = begin
                lengths[c, good] = operands[at]
            elif operation == DECIMAL and sizes[at] >= 0:
                position += sizes[at]
                if position <= end:
                    number, fits = big_endian(data, begin, position)
                    if fits:
                        number, fits = scale_number(number, operands[at], kinds[c], minima[c], maxima[c])
                    ints[c, good] = number
                    valid[c, good] = True
                    if not fits:
                        code = c
                        break
            elif operation == JUMP:
                at = operands[at]
                continue
            elif operation == MISMATCH:
                code = c
                break
            elif operation == CALL:
                if calls == MAX_LEVELS:
                    code = np.int64(TOO_DEEP)
                    break
                returns[calls] = at + 1
                calls += 1
                at = operands[at]
                continue
            elif operation == RETURN:
                calls -= 1
                at = returns[calls]
                continue
            elif operation == LIST:
                if loops == MAX_LEVELS:
                    code = np.int64(TOO_DEEP)
                    break
                ordinals[loops] = 0
            elif operation == ITEM:
                ordinal = ordinals[loops - 1]
                ordinals[loops - 1] = ordinal + 1
                at = targets[operands[at] + min(ordinal, sizes[at] - 1)]
                continue
            elif operation == ITEM_END:
                remaining[loops - 1] -= 1
                at = operands[at]
                if remaining[loops - 1] > 0:
                    at += 1
                else:
                    loops -= 1
                continue
            else:
                number, position = _varint(data, position, end)
                if position < 0:
                    code = np.int64(LONG_NUMBER if end - begin >= 10 else ENDS)
                    break
                if operation == NUMBER:
                    if kinds[c] == FLOAT_COLUMN:
                        floats[c, good] = np.float64(number)
                    else:
                        number, fits = scale_number(number, operands[at], kinds[c], minima[c], maxima[c])
                        if not fits:
                            code = c
                            break
                        ints[c, good] = number
                    valid[c, good] = True
                elif operation in (TEXT, SKIP_TEXT, PARSED_TEXT, BYTES, DECIMAL):
                    if number < 0 or number > end - position:
                        code = np.int64(ENDS)
                        break
                    if operation == TEXT and not is_utf8(data, position, position + number):
                        code = np.int64(NO_UTF8)
                        break
                    if operation in (TEXT, BYTES):
                        starts[c, good] = position
                        lengths[c, good] = number
                    elif operation != SKIP_TEXT:
                        if operation == PARSED_TEXT:
                            value, fits = parse_value(
                                data, position, position + number, kinds[c], scales[c], minima[c], maxima[c]
                            )
                        else:
                            value, fits = big_endian(data, position, position + number)
                            if fits:
                                value, fits = scale_number(value, operands[at], kinds[c], minima[c], maxima[c])
                        if not fits:
                            code = c
                            break
                        ints[c, good] = value
                        valid[c, good] = True
                    position += number
                elif operation in (ENUM, UNION):
                    if number < 0 or number >= sizes[at]:
                        code = np.int64(OUT_OF_RANGE)
                        break
                    if operation == UNION:
                        at = targets[operands[at] + number]
                        continue
                    starts[c, good] = symbol_starts[operands[at] + number]
                    lengths[c, good] = symbol_lengths[operands[at] + number]
                elif operation == BLOCKS:
                    if number == 0:
                        at = operands[at]
                        continue
                    if number < 0:  # the size of the block follows: it is skipped at once, unless items are read
                        size, position = _varint(data, position, end)
                        if position < 0 or size < 0 or size > end - position:
                            code = np.int64(ENDS)
                            break
                        if sizes[at] == 0:
                            position += size
                            continue
                        number = -number
                    if loops == MAX_LEVELS:
                        code = np.int64(TOO_DEEP)
                        break
                    remaining[loops] = number
                    loops += 1
            if position > end:
                code = np.int64(ENDS)
                break
            at += 1
        if code == GOOD and position != end:
            code, begin = np.int64(GOES_ON), position
        if code == GOOD:
            rows[good] = record
            good += 1
        else:
            faults[bad, 0], faults[bad, 1], faults[bad, 2] = record, code, begin
            bad += 1
    return good, bad
