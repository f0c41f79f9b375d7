"""Instructions on words of eight bytes that numba does not offer by itself."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _load_8(typing_context: Any, data: Any, start: Any) -> Any:
    """The eight bytes of `data` from `start` as one number, wherever they lie."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = cgutils.gep(builder, array.data, arguments[1])  # type: ignore[no-untyped-call]
        pointer = builder.bitcast(address, ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(data, types.int64), generate


def _count_ones(typing_context: Any, word: Any) -> Any:
    """How many bits are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


def _count_zeros(typing_context: Any, word: Any) -> Any:
    """How many bits are clear below the lowest that is set; 64 if none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


load_8: Any = intrinsic(_load_8)
count_ones: Any = intrinsic(_count_ones)
count_zeros: Any = intrinsic(_count_zeros)
