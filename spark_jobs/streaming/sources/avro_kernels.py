"""Avro kernel: a program, compiled from the schema that a record was written with, reads the wanted fields of it.

A program is a sequence of operations, each with an operand and a column. Everything that is read is within the record:
a record that ends early, goes on after its end, or has an index out of range is a fault.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Operations, with what their operand is. In the comments, `column` is the one that they fill.
END, SKIP, SKIP_VARINT, SKIP_TEXT = 0, 1, 2, 3  # SKIP: a number of bytes
INT, INT_TO_FLOAT, FLOAT, DOUBLE, TEXT = 4, 5, 6, 7, 8
SCALED_INT, SCALED_FLOAT = 9, 16  # what to multiply with or, if negative, to divide by
ENUM = 10  # the first of its symbols; the number of them in `sizes`
UNION = 11  # the first of its branches in `targets`; the number of them in `sizes`
JUMP = 12  # the next operation
MISMATCH = 13  # a value of another type than that of the column
BLOCKS, ITEM_END = 14, 15  # BLOCKS: the operation after the last item; ITEM_END: that of BLOCKS

# Codes of faults; 0 or more is the column of which the value has another type.
GOOD, ENDS, GOES_ON, LONG_NUMBER, OUT_OF_RANGE, NO_UTF8 = -1, -2, -3, -4, -5, -6
MAX_LEVELS = 64  # of lists within lists

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
    starts, lengths, ints, floats, valid, rows, faults,
):  # fmt: skip
    """Read records, each from `begins` to `ends` in `data` by the program that begins at its operation of `programs`.

    A program below 0 is none: its record is left out. Fills the columns of the good records, one after another, and
    `rows` with which those are; `faults` with (record, code, position) of the others. Returns the numbers of both. A
    text has `lengths` bytes at `starts`, below 0: it is null; numbers are null where `valid` is false.
    """
    good = bad = 0
    scratch = np.empty(8, np.uint8)
    remaining, loops = np.empty(MAX_LEVELS, np.int64), 0
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
        code, begin, loops = np.int64(GOOD), position, 0
        while operations[at] != END:
            operation, c, begin = operations[at], columns[at], position
            if operation == SKIP:
                position += operands[at]
            elif operation in (FLOAT, DOUBLE):
                position += 4 if operation == FLOAT else 8
                if position <= end:
                    value = _float(scratch, begin, data) if operation == FLOAT else _double(scratch, begin, data)
                    floats[c, good] = value
                    valid[c, good] = value == value
            elif operation == JUMP:
                at = operands[at]
                continue
            elif operation == MISMATCH:
                code = c
                break
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
                if operation == INT:
                    ints[c, good] = number
                    valid[c, good] = True
                elif operation == INT_TO_FLOAT:
                    floats[c, good] = np.float64(number)
                    valid[c, good] = True
                elif operation == SCALED_FLOAT:
                    factor = operands[at]
                    floats[c, good] = np.float64(number) / -factor if factor < 0 else np.float64(number) * factor
                    valid[c, good] = True
                elif operation == SCALED_INT:
                    factor = operands[at]
                    if factor < 0:
                        ints[c, good] = number // -factor
                        valid[c, good] = True
                    else:
                        ints[c, good] = number * factor
                        valid[c, good] = ints[c, good] // factor == number
                elif operation in (TEXT, SKIP_TEXT):
                    if number < 0 or number > end - position:
                        code = np.int64(ENDS)
                        break
                    if operation == TEXT:
                        if not is_utf8(data, position, position + number):
                            code = np.int64(NO_UTF8)
                            break
                        starts[c, good] = position
                        lengths[c, good] = number
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
                    if number < 0:  # the size of the block follows: it is skipped at once
                        size, position = _varint(data, position, end)
                        if position < 0 or size < 0 or size > end - position:
                            code = np.int64(ENDS)
                            break
                        position += size
                        continue
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
