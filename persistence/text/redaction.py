"""Passwords, tokens and keys are left out of whatever is told: logs, errors, what the catalog and a heartbeat keep."""

from __future__ import annotations

import logging
import re

_NAMES = (
    r"password|passwd|pwd|passphrase|secret(?:[\w.-]*key)?|token|delegation|credentials?"
    r"|(?:api|access|fernet|private|account|encryption)[._-]?key"
)
_SECRETS = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), "***"),
    # The password of a URL, which may hold `/` and `@`. A number before a `/` is a port.
    (re.compile(r"(://[^\s/:@\"'<>]*):(?!\d{1,5}(?:[/?#,;)\s\"'<>]|$))[^\s\"'<>]*@"), r"\1:***@"),
    (re.compile(rf"(?i)((?:{_NAMES})\\?[\"']?\s*[=:]\s*)(\\?[\"'])(?:(?!\2).)+\2"), r"\1\2***\2"),
    (re.compile(rf"(?i)((?:{_NAMES})\s*[=:]\s*)[^\s\"',;&}}\\]+"), r"\1***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), r"\1 ***"),
)


def redacted(text: str) -> str:
    """`text` without the passwords, tokens and keys that it holds."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class WithoutSecrets(logging.Filter):
    """Takes secrets out of what another library logs, wherever its lines go."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redacted(record.getMessage()), None
        return True


_FILTER = WithoutSecrets()


def watch_over(logger: str) -> None:
    """Let a logger of another library tell no secret from now on; a second call changes nothing."""
    logging.getLogger(logger).addFilter(_FILTER)
