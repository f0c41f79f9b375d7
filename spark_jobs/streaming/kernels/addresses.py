"""Loads from memory by address, for loops over columns that lie in many buffers; and hints to load a cache line early.

An address is an integer from `pyarrow.Buffer.address`; the caller keeps the buffer alive.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _loader(bits: int, result: Any) -> Any:
    """Return a function of (address, index) that loads the element of so many bits at an index."""

    def load(typing_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            base = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            return builder.load(builder.gep(base, [arguments[1]]), align=1)

        return result(types.int64, types.int64), generate

    return intrinsic(load)


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Start to load the element of an array at an index into the cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        return _call_prefetch(context, builder, builder.gep(view.data, [arguments[1]]))

    return types.none(array, types.int64), generate


def _prefetch_int64(typing_context: Any, address: Any, index: Any) -> Any:
    """Start to load the 64-bit element at an index from an address into the cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        base = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return _call_prefetch(context, builder, builder.gep(base, [arguments[1]]))

    return types.none(types.int64, types.int64), generate


def _call_prefetch(context: Any, builder: Any, pointer: Any) -> Any:
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    function_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, function_type, "llvm.prefetch.p0i8"
    )
    builder.call(function, [builder.bitcast(pointer, byte), number(0), number(3), number(1)])
    return context.get_dummy_value()


load_int64: Any = _loader(64, types.int64)
load_int32: Any = _loader(32, types.int32)
load_uint8: Any = _loader(8, types.uint8)
prefetch: Any = intrinsic(_prefetch)
prefetch_int64: Any = intrinsic(_prefetch_int64)
