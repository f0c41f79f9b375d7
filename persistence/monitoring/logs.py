"""Logs of persisters and streams: text for people, or JSON, an object a line, with what the line is about."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TextIO

from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.text.redaction import redacted
from springline.persistence.text.visible_text import json_text, visible

LOGGER = "springline"  # the loggers of the platform are those below it

_NONE: Mapping[str, object] = MappingProxyType({})
_about: ContextVar[Mapping[str, object]] = ContextVar("about", default=_NONE)


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """While inside, what this thread logs is about this: `dataset`, `job`, `stage`, `unit`, `round`."""
    token = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        _about.reset(token)


class TextLines(logging.Formatter):
    """The message alone, as it always was."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(redacted(super().format(record)))


class JsonLines(logging.Formatter):
    """One object: time (UTC), level, logger, message, what it is about, and `error` where there is a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
            **_about.get(),
        }
        if record.exc_info:
            told["error"] = redacted(self.formatException(record.exc_info))
        return json_text(told)


def start_logging(settings: MonitoringSettings, stream: TextIO) -> None:
    """Log to `stream` from now on, in the form that the settings ask for; a second call takes the first one's place.

    As JSON go the lines of other libraries too; as text, those of the platform alone.
    """
    ours, root = logging.getLogger(LOGGER), logging.getLogger()
    for logger in (ours, root):
        for handler in [each for each in logger.handlers if isinstance(each.formatter, TextLines | JsonLines)]:
            logger.removeHandler(handler)
    as_json = settings.log == "json"
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    (root if as_json else ours).addHandler(handler)
    ours.setLevel(settings.log_level.upper())
