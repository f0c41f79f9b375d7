"""CPU instructions on 8-byte words that numba does not provide."""

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


load_8: Any = intrinsic(_load_8)
count_ones: Any = intrinsic(_count_ones)
count_zeros: Any = intrinsic(_count_zeros)
