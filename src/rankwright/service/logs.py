"""Log lines as JSON, one for each request, with the ids of W3C traces."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
import traceback
from typing import Any, TextIO

import msgspec
from starlette.types import Scope

ACCESS = logging.getLogger("rankwright.access")
_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-([0-9a-f]{2})(-.*)?")


def child_span(header: bytes | None) -> bytes | None:
    """The ``traceparent`` of a span of ours, in the trace of a client; None without a valid one.

    >>> child_span(b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01")[:36]
    b'00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-'
    >>> child_span(b"nonsense")
    """
    match = None if header is None else _TRACEPARENT.fullmatch(header)
    if match is None or not match[1].strip(b"0") or header[:2] == b"ff":  # type: ignore[index]
        return None
    return b"00-%s-%s-%s" % (match[1], os.urandom(8).hex().encode(), match[2])


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
    """Write all log lines as JSON to standard error, and one for each request."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)


def note(text: str) -> None:
    """Log what a person would read at a terminal."""
    logging.getLogger("rankwright.service").info(text)


def log_request(scope: Scope, status: int, seconds: float) -> None:
    """A line about a request that was answered."""
    principal, client = scope.get("principal"), scope.get("client")
    fields = {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "seconds": round(seconds, 6),
        "client": client[0] if client else None,
        "principal": None if principal is None else principal.name,
    }
    trace = scope.get("rankwright.trace")
    if trace is not None:
        _, fields["trace_id"], fields["span_id"], _ = trace.decode().split("-")
    ACCESS.info("%s %s %s", scope["method"], scope["path"], status, extra={"fields": fields})
