"""Removes passwords, tokens and keys from all output: logs, errors, and what the catalog and heartbeats store."""

from __future__ import annotations

import logging
import re

_SECRET_NAMES = (
    r"password|passwd|pwd|passphrase|secret(?:[\w.-]*key)?|token|delegation|credentials?"
    r"|(?:api|access|fernet|private|account|encryption)[._-]?key|user[._-]info"
)
_SECRET_PATTERNS = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), "***"),
    # The password of a URL, which may contain `/` and `@`. A number before a `/` is a port.
    (re.compile(r"(://[^\s/:\"'<>]*):(?!\d{1,5}(?:[/?#,;)\s\"'<>]|$))[^\s\"'<>]*@"), r"\1:***@"),
    (re.compile(rf"(?i)((?:{_SECRET_NAMES})\\?[\"']?\s*[=:]\s*)(\\?[\"'])(?:(?!\2).)+\2"), r"\1\2***\2"),
    (re.compile(rf"(?i)((?:{_SECRET_NAMES})\s*[=:]\s*)[^\s\"',;&}}\\]+"), r"\1***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), r"\1 ***"),
)


def redact_secrets(text: str) -> str:
    """Return `text` with its passwords, tokens and keys replaced."""
    for pattern, replacement in _SECRET_PATTERNS:
        text = pattern.sub(replacement, text)
    return text


class RedactingFilter(logging.Filter):
    """Removes secrets from what another library logs, whatever the handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact_secrets(record.getMessage()), None
        return True


_FILTER = RedactingFilter()


def redact_logger(logger: str) -> None:
    """Redact secrets in the logger of another library from now on; a second call has no effect."""
    logging.getLogger(logger).addFilter(_FILTER)
