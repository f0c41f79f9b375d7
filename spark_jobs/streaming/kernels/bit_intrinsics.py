"""CPU instructions on 8 and 32 bytes at once that numba does not provide."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _load_8(typing_context: Any, data: Any, start: Any) -> Any:
    """Load eight bytes of `data` at `start` as one integer; the address need not be aligned."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = cgutils.gep(builder, array.data, arguments[1])  # type: ignore[no-untyped-call]
        pointer = builder.bitcast(address, ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(data, types.int64), generate


def _count_ones(typing_context: Any, word: Any) -> Any:
    """Return the number of set bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


def _count_zeros(typing_context: Any, word: Any) -> Any:
    """Return the number of zero bits below the lowest set bit; 64 if none is set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


_WIDE = ir.VectorType(ir.IntType(8), 32)


def _splat(byte: int) -> ir.Constant:
    return ir.Constant(_WIDE, [byte] * 32)


def _load_32(context: Any, builder: Any, signature: Any, data: Any, start: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, data)
    address = cgutils.gep(builder, array.data, start)  # type: ignore[no-untyped-call]
    return builder.load(builder.bitcast(address, _WIDE.as_pointer()), align=1)


def _count_leading(builder: Any, flags: Any) -> Any:
    """Return how many of 32 flags are set before the first that is not."""
    others = builder.not_(builder.bitcast(flags, ir.IntType(32)))
    return builder.zext(builder.cttz(others, ir.Constant(ir.IntType(1), 0)), ir.IntType(64))


def _count_equal(typing_context: Any, data: Any, start: Any, other: Any) -> Any:
    """Return how many of the 32 bytes at two positions are the same before the first that differs."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, two = (_load_32(context, builder, signature, arguments[0], each) for each in arguments[1:])
        return _count_leading(builder, builder.icmp_unsigned("==", one, two))

    return types.int64(data, types.int64, types.int64), generate


def _count_digits(typing_context: Any, data: Any, start: Any) -> Any:
    """Return how many of the 32 bytes at a position are digits before the first that is none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        digits = builder.sub(_load_32(context, builder, signature, *arguments), _splat(48))
        return _count_leading(builder, builder.icmp_unsigned("<", digits, _splat(10)))

    return types.int64(data, types.int64), generate


def _count_plain(typing_context: Any, data: Any, start: Any) -> Any:
    """Return how many of the 32 bytes at a position precede the first quote, backslash or control character."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        text = _load_32(context, builder, signature, *arguments)
        plain = builder.icmp_unsigned(">=", text, _splat(32))
        for byte in (34, 92):
            plain = builder.and_(plain, builder.icmp_unsigned("!=", text, _splat(byte)))
        return _count_leading(builder, plain)

    return types.int64(data, types.int64), generate


def _copy_32(typing_context: Any, data: Any, start: Any, into: Any, to: Any) -> Any:
    """Copy the 32 bytes of `data` at `start` to the position `to` of another array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = _load_32(context, builder, signature, *arguments[:2])
        array = context.make_array(signature.args[2])(context, builder, arguments[2])
        address = cgutils.gep(builder, array.data, arguments[3])  # type: ignore[no-untyped-call]
        builder.store(wide, builder.bitcast(address, _WIDE.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, into, types.int64), generate


load_8: Any = intrinsic(_load_8)
copy_32: Any = intrinsic(_copy_32)
count_ones: Any = intrinsic(_count_ones)
count_zeros: Any = intrinsic(_count_zeros)
count_equal: Any = intrinsic(_count_equal)
count_digits: Any = intrinsic(_count_digits)
count_plain: Any = intrinsic(_count_plain)
