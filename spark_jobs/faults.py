"""Classifies errors of operations: whether the code is at fault, so that a retry would fail again."""

from __future__ import annotations

import builtins
import re

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    PySparkException,
    PySparkNotImplementedError,
    PySparkValueError,
    PythonException,
    UnsupportedOperationException,
)

_CODE_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, TypeError),
    *(ArithmeticException, ArrayIndexOutOfBoundsException, DateTimeException, NumberFormatException),
    *(PySparkNotImplementedError, PySparkValueError, UnsupportedOperationException),
)
_PLAN_ERROR_PREFIXES = ("AMBIGUOUS_", "DATATYPE_MISMATCH", "PARSE_", "UNRESOLVED_")  # of Spark's error conditions
_PICKLING_ERROR = "PicklingError"  # Python's own, compared by name: nothing here unpickles
_NO_SESSION = ("NO_ACTIVE_OR_DEFAULT_SESSION", "SESSION_OR_CONTEXT_NOT_EXISTS")
_ERROR_LINE = re.compile(r"^(?:\w+\.)*(\w+)(?::|$)", re.MULTILINE)  # a line that begins with an error's name

NO_SESSION_REMEDY = (
    "it, or a UDF that it uses, was created for a local Spark session, but this session is remote: import its module"
    " only through SPRINGLINE_OPERATIONS, or create the UDF inside the operation"
)


def is_code_error(error: Exception) -> bool:
    """Return whether the code is at fault, and not an unavailable store or server."""
    if isinstance(error, AnalysisException):
        return str(error.getCondition()).startswith(_PLAN_ERROR_PREFIXES)
    if isinstance(error, PythonException):
        return _is_udf_code_error(str(error))
    return isinstance(error, _CODE_ERRORS) or type(error).__name__ == _PICKLING_ERROR or lacks_session(error)


def lacks_session(error: Exception) -> bool:
    """Return whether PySpark looked for a kind of session that this process does not have."""
    return isinstance(error, PySparkException) and error.getCondition() in _NO_SESSION


def _is_udf_code_error(traceback_text: str) -> bool:
    """Return whether the last error of a worker's traceback is an error of the code."""
    names = [name for name in _ERROR_LINE.findall(traceback_text) if isinstance(getattr(builtins, name, None), type)]
    kind = getattr(builtins, names[-1]) if names else object
    return issubclass(kind, _CODE_ERRORS)
