"""Whether an error of an operation tells of wrong code, so that running it again would fail again."""

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

_WRONG_CODE = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, TypeError),
    *(ArithmeticException, ArrayIndexOutOfBoundsException, DateTimeException, NumberFormatException),
    *(PySparkNotImplementedError, PySparkValueError, UnsupportedOperationException),
)
_WRONG_PLANS = ("AMBIGUOUS_", "DATATYPE_MISMATCH", "PARSE_", "UNRESOLVED_")  # of Spark's error conditions
_NOT_SENT = "PicklingError"  # Python's own, by name: nothing here reads what was pickled
_NO_SESSION = ("NO_ACTIVE_OR_DEFAULT_SESSION", "SESSION_OR_CONTEXT_NOT_EXISTS")
_RAISED = re.compile(r"^(?:\w+\.)*(\w+)(?::|$)", re.MULTILINE)  # a line that begins with an error's name

NO_SESSION_REMEDY = (
    "it, or a UDF that it uses, was made for a Spark in this process, and the session is another: import its module by"
    " SPRINGLINE_OPERATIONS alone, or make it inside the operation"
)


def is_wrong_code(error: Exception) -> bool:
    """Whether what is wrong is the code, and not a store or a server that was away."""
    if isinstance(error, AnalysisException):
        return str(error.getCondition()).startswith(_WRONG_PLANS)
    if isinstance(error, PythonException):
        return _is_wrong_udf(str(error))
    return isinstance(error, _WRONG_CODE) or type(error).__name__ == _NOT_SENT or lacks_session(error)


def lacks_session(error: Exception) -> bool:
    """Whether PySpark looked for a session of a kind that this process has none of."""
    return isinstance(error, PySparkException) and error.getCondition() in _NO_SESSION


def _is_wrong_udf(told: str) -> bool:
    """Whether the last error of a worker's traceback is one of wrong code."""
    names = [name for name in _RAISED.findall(told) if isinstance(getattr(builtins, name, None), type)]
    kind = getattr(builtins, names[-1]) if names else object
    return issubclass(kind, _WRONG_CODE)
