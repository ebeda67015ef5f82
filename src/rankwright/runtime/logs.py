"""Log lines as JSON: those of the service, and those of fits on clusters."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from typing import Any, TextIO

import msgspec


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; what ``extra={"fields": ...}`` gives becomes its fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = "".join(traceback.format_exception(*record.exc_info))
        return msgspec.json.encode(line, enc_hook=str).decode()


def log_as_json(stream: TextIO | None = None) -> None:
    """Write all log lines of this process as JSON to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
