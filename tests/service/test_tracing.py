"""Requests as spans of OpenTelemetry."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.service.conftest import Client

from rankwright.service import Settings, create_app

pytest.importorskip("opentelemetry.sdk")
proto = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")


@pytest.fixture
def collector():
    """A server that takes spans; its address and what it got."""
    spans = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            request = proto.ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces", spans
    server.shutdown()
    thread.join()
    server.server_close()


def test_each_request_is_a_span_of_the_clients_trace(collector, tmp_path):
    url, spans = collector
    client = Client(create_app(Settings(store=str(tmp_path / "f.db"), otlp_endpoint=url)))
    trace, parent = "a" * 32, "b" * 16
    answer = client.get("/v1/models", headers={"traceparent": f"00-{trace}-{parent}-01"})
    own = answer.headers["traceparent"].split("-")[2]
    other = client.get("/v1/models/nothing/x").headers["traceparent"].split("-")[1]
    client.close()  # sends what is left
    first, second = spans
    assert (first.trace_id.hex(), first.span_id.hex(), first.parent_span_id.hex()) == (
        trace, own, parent,
    )  # fmt: skip
    assert first.name == "GET /v1/models"
    assert first.end_time_unix_nano > first.start_time_unix_nano
    assert second.trace_id.hex() == other != trace
    assert second.parent_span_id == b""
    status = next(a for a in second.attributes if a.key == "http.response.status_code")
    assert status.value.int_value == 404
