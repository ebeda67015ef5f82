"""A log line for each request, with the ids of W3C traces."""

from __future__ import annotations

import logging
import os
import re

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
