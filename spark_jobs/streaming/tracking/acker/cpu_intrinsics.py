"""Processor instructions that numba does not offer by itself: prefetching, and memory access by address."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD, _BYTE_POINTER, _INT = ir.IntType(64), ir.IntType(8).as_pointer(), ir.IntType(32)


def _hint(builder: Any, pointer: Any) -> None:
    """Prefetch a cache line for writing."""
    kind = ir.FunctionType(ir.VoidType(), [_BYTE_POINTER, _INT, _INT, _INT])
    name = "llvm.prefetch.p0" if "p0i8" not in str(_BYTE_POINTER) else "llvm.prefetch.p0i8"
    function = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
    builder.call(function, [pointer, _INT(1), _INT(3), _INT(1)])


def _prefetch(typing_context: Any, data: Any, index: Any) -> Any:
    """Prefetch the cache line of `data[index]`: `data` one-dimensional and contiguous; index an int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = cgutils.gep(builder, array.data, arguments[1])  # type: ignore[no-untyped-call]
        _hint(builder, builder.bitcast(address, _BYTE_POINTER))
        return context.get_dummy_value()

    return types.void(data, types.int64), generate


def _prefetch_at(typing_context: Any, address: Any) -> Any:
    """Prefetch the cache line at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _hint(builder, builder.inttoptr(arguments[0], _BYTE_POINTER))
        return context.get_dummy_value()

    return types.void(types.uint64), generate


def _load_at(typing_context: Any, address: Any) -> Any:
    """Return the uint64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()))

    return types.uint64(types.uint64), generate


def _store_at(typing_context: Any, address: Any, value: Any) -> Any:
    """Write a uint64 to an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _WORD.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


prefetch: Any = intrinsic(_prefetch)
prefetch_at: Any = intrinsic(_prefetch_at)
load_at: Any = intrinsic(_load_at)
store_at: Any = intrinsic(_store_at)
