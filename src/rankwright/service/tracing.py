"""Requests as spans of OpenTelemetry, sent to a collector."""

from __future__ import annotations

import os
import time
from typing import Any

from starlette.types import Scope

from rankwright.exceptions import ParameterError, Setting

NAME = "OTEL_SERVICE_NAME"  # an environment variable


class Tracing:
    """Exports a span for each request, with the ids of its ``traceparent``.

    Parameters
    ----------
    endpoint : where a collector takes OTLP over HTTP, such as "http://127.0.0.1:4318/v1/traces"
    """

    def __init__(self, endpoint: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
        except ImportError as error:
            raise ParameterError(
                Setting("otlp_endpoint", endpoint),
                ": OpenTelemetry is not installed.",
                fix="Run: pip install 'rankwright[otel]'",
            ) from error

        class GivenIds(RandomIdGenerator):  # type: ignore[misc]
            """Ids that were sent to the client before the span is made."""

            def __init__(self) -> None:
                self.span = self.trace = 0

            def generate_span_id(self) -> int:
                return self.span

            def generate_trace_id(self) -> int:
                return self.trace

        self._ids = GivenIds()
        resource = Resource.create({"service.name": os.environ.get(NAME, "rankwright")})
        self._provider = TracerProvider(resource=resource, id_generator=self._ids)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
        self._tracer = self._provider.get_tracer("rankwright.service")

    @staticmethod
    def new_trace() -> bytes:
        """The ``traceparent`` of a request that belongs to no trace yet."""
        return b"00-%s-%s-01" % (os.urandom(16).hex().encode(), os.urandom(8).hex().encode())

    def record(self, scope: Scope, status: int, seconds: float) -> None:
        """Export what was answered."""
        from opentelemetry import trace

        _, trace_id, span_id, flags = scope["rankwright.trace"].decode().split("-")
        self._ids.trace, self._ids.span = int(trace_id, 16), int(span_id, 16)
        context: Any = None
        parent = dict(scope["headers"]).get(b"traceparent", b"")
        if parent[3:35] == trace_id.encode():
            remote = trace.SpanContext(
                int(trace_id, 16),
                int(parent.split(b"-")[2], 16),
                is_remote=True,
                trace_flags=trace.TraceFlags(int(flags, 16)),
            )
            context = trace.set_span_in_context(trace.NonRecordingSpan(remote))
        route = scope.get("rankwright.route")
        path = route[0].path if route else scope["path"]
        end = time.time_ns()
        span = self._tracer.start_span(
            f"{scope['method']} {path}",
            context,
            trace.SpanKind.SERVER,
            {
                "http.request.method": scope["method"],
                "http.route": path,
                "http.response.status_code": status,
            },
            start_time=end - int(seconds * 1e9),
        )
        if status >= 500:
            span.set_status(trace.StatusCode.ERROR)
        span.end(end)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
