"""Logs of persisters and streams: text for people, or JSON, one object per line, with context fields."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TextIO

from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.text.redaction import redact_secrets
from springline.persistence.text.visible_text import dump_json, escape_unprintable

LOGGER = "springline"  # parent of all loggers of the platform

_NO_FIELDS: Mapping[str, object] = MappingProxyType({})
_context_fields: ContextVar[Mapping[str, object]] = ContextVar("log_context", default=_NO_FIELDS)


@contextmanager
def log_context(**fields: object) -> Iterator[None]:
    """Add these fields to what this thread logs inside the block: `dataset`, `job`, `stage`, `unit`, `round`."""
    token = _context_fields.set({**_context_fields.get(), **fields})
    try:
        yield
    finally:
        _context_fields.reset(token)


class TextFormatter(logging.Formatter):
    """Formats the message alone."""

    def format(self, record: logging.LogRecord) -> str:
        return escape_unprintable(redact_secrets(super().format(record)))


class JsonFormatter(logging.Formatter):
    """Formats an object with time (UTC), level, logger, message, context fields, and `error` with a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact_secrets(record.getMessage()),
            **_context_fields.get(),
        }
        if record.exc_info:
            fields["error"] = redact_secrets(self.formatException(record.exc_info))
        return dump_json(fields)


def configure_logging(settings: MonitoringSettings, stream: TextIO) -> None:
    """Log to `stream` in the format of the settings; a second call replaces the first.

    As JSON, lines of other libraries are logged too; as text, only those of the platform.
    """
    platform_logger, root = logging.getLogger(LOGGER), logging.getLogger()
    for logger in (platform_logger, root):
        for handler in [each for each in logger.handlers if isinstance(each.formatter, TextFormatter | JsonFormatter)]:
            logger.removeHandler(handler)
    as_json = settings.log_format == "json"
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    (root if as_json else platform_logger).addHandler(handler)
    platform_logger.setLevel(settings.log_level.upper())
