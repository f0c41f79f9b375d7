"""What a value consists of, by the protocol of pickle: the parts that are the same in every process."""

from __future__ import annotations

import copyreg
import enum
import functools
import os
import sys
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

from springline.spark_jobs.errors import CodeVersionError

# Packages whose values have a pickle that depends on nothing but the value. Others count creations, cache what they
# have computed, or draw an identifier, so that their values are described by the expression that makes them.
_STABLE = frozenset({*sys.stdlib_module_names, "numpy", "pandas", "pyarrow", "dateutil", "pytz", "pyspark.sql.types"})
_NOT_STATE = ("__doc__", "__annotations__")  # copied by functools.update_wrapper


_REMEDY = (
    "define it by a statement at module level, create it inside the function, or give its class a __reduce__ that"
    " returns the values that count"
)


def no_form(cls: type, reason: str = "") -> CodeVersionError:
    """Return the error for a value of `cls` that cannot be part of a version."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    return CodeVersionError(
        f"a value of the type {name} has no form that is the same in every process{reason}; {_REMEDY}"
    )


class Parts(NamedTuple):
    """A label, and the values that a value consists of; their order counts unless `is_set`."""

    label: str
    values: tuple[Any, ...] = ()
    is_set: bool = False


def parts_of(value: Any, *, is_ours: bool) -> Parts:
    """Return what `value` consists of; `is_ours` if its class is not one of a library.

    Raises `CodeVersionError` if it has no parts that are the same in every process.
    """
    cls = type(value)
    if cls in (tuple, list):
        return Parts(cls.__name__, tuple(value))
    if cls in (dict, MappingProxyType):
        return Parts("dict", tuple(each for item in value.items() for each in item))
    if isinstance(value, set | frozenset):
        elements = Parts("elements", tuple(value), is_set=True)
        return elements if cls in (set, frozenset) else Parts("set", (cls, elements, *_state(value, vars(value))))
    if isinstance(value, Parts):
        return value
    if isinstance(value, os._Environ):
        return Parts("os.environ")
    if isinstance(value, enum.Enum):
        return Parts("member", (cls, value.name, value.value))
    if isinstance(value, PurePath):
        return Parts("path", (cls, str(value)))
    if (parts := _parts_of_callable(value)) is not None:
        return parts
    if not is_ours and not _is_stable(cls):
        raise no_form(cls)
    return _reduced(value, cls)


def _parts_of_callable(value: Any) -> Parts | None:
    """Return the parts of a method or another descriptor."""
    if isinstance(value, MethodType):
        return Parts("method", (value.__func__, value.__self__))
    if isinstance(value, BuiltinFunctionType | MethodWrapperType):
        owner = value.__self__
        name = f"{getattr(value, '__module__', None) or 'builtins'}.{value.__qualname__}"
        return Parts(f"builtin {name}", () if owner is None or isinstance(owner, ModuleType) else (owner,))
    if isinstance(value, WrapperDescriptorType | MethodDescriptorType | MemberDescriptorType | GetSetDescriptorType):
        return Parts(f"slot {value.__name__}")
    if isinstance(value, staticmethod | classmethod):
        return Parts(type(value).__name__, (value.__func__,))
    if isinstance(value, property):
        return Parts("property", (type(value), value.fget, value.fset, value.fdel))
    if isinstance(value, functools.cached_property):
        return Parts("cached property", (value.func,))
    return None


def _is_stable(cls: type) -> bool:
    return cls.__module__ in _STABLE or cls.__module__.partition(".")[0] in _STABLE


def _reduced(value: Any, cls: type) -> Parts:
    """Return the parts that pickle would store; a class may say them with `__reduce__` or `__getstate__`."""
    try:
        reduce = copyreg.dispatch_table.get(cls)
        reduced: Any = reduce(value) if reduce else value.__reduce_ex__(4)
        if isinstance(reduced, str):
            return Parts("global", (cls, reduced))
        make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        parts = (make, arguments, tuple(items or ()), tuple(pairs or ()))
    except Exception as error:
        raise no_form(cls, f" ({error})") from error
    return Parts("object", (*parts, *_state(value, state)))


def _state(value: Any, state: Any) -> tuple[Any, ...]:
    """Return a state without what was computed from the rest of it, attributes in the order of their names."""
    if isinstance(state, tuple):
        return tuple(each for part in state for each in _state(value, part))
    if type(state) is not dict or not all(isinstance(name, str) for name in state):
        return (state,)
    return tuple(
        each
        for name in sorted(state)
        if name not in _NOT_STATE and not isinstance(_attribute(type(value), name), functools.cached_property)
        for each in (name, state[name])
    )


def _attribute(cls: type, name: str) -> Any:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
