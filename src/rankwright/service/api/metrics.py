"""Measures of the service itself, in Prometheus' text format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from rankwright.service.api.routing import Call, Reply

if TYPE_CHECKING:
    from rankwright.service.app import Service

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counters of requests; the rest is read from the service when somebody asks."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels: Any = {"registry": self.registry, "namespace": "rankwright"}
        self.requests = Counter("requests", "Requests answered.", ["path", "status"], **labels)
        self.seconds = Histogram(
            "request_seconds", "Time to answer.", ["path"], buckets=BUCKETS, **labels
        )
        self.shadow_failures = Counter(
            "shadow_failures", "Lists that a shadow model could not score.", **labels
        )
        self.unknown_levels = Counter(
            "unknown_levels", "Texts that training did not have, which count as missing.", **labels
        )
        gauges = {
            "feedback_lag_seconds": "Age of the last feedback when it was learned.",
            "feedback_lag_entries": "Feedback entries that wait to be learned.",
            "log_pending_bytes": "Bytes that wait for the disk.",
            "log_entries": "The number of the last entry of the log.",
            "rank_loss": "Mean rank loss of the live ranker so far, test-then-train.",
            "examples": "Examples that the live ranker has learned.",
        }
        self.gauges = {name: Gauge(name, about, **labels) for name, about in gauges.items()}
        self.model = Gauge(
            "model_info", "1 for each active model.", ["task", "version", "kind"], **labels
        )

    def observe(self, path: str, status: int, *seconds: float) -> None:
        """Count requests that took so many seconds each."""
        self.requests.labels(path, status).inc(len(seconds))
        observe = self.seconds.labels(path).observe
        for each in seconds:
            observe(each)

    def answered(self, path: str) -> tuple[int, dict[float, float]]:
        """All requests, and those of a path that were answered within each bound."""
        (counts,), (times,) = self.requests.collect(), self.seconds.collect()
        total = sum(sample.value for sample in counts.samples if sample.name.endswith("_total"))
        within = (s for s in times.samples if "le" in s.labels and s.labels["path"] == path)
        return int(total), {float(sample.labels["le"]): sample.value for sample in within}

    def update(self, service: Service) -> None:
        """Read the gauges from the service."""
        learner, live = service.learner, service.learner.live
        last = service.store.select("SELECT max(seq) FROM log")[0][0]
        values = {
            "feedback_lag_seconds": learner.lag,
            "feedback_lag_entries": learner.behind,
            "log_pending_bytes": service.store.pending,
            "log_entries": last or 0,
            "rank_loss": 0.0 if live is None else live.rank_loss,
            "examples": 0 if live is None else live.progress.n_examples,
        }
        for name, value in values.items():
            self.gauges[name].set(value)
        self.model.clear()
        for info in service.models.infos():
            if info.active:
                self.model.labels(info.task, info.version, info.kind).set(1)


def metrics(service: Service, call: Call) -> Reply:
    """``GET /metrics``."""
    service.metrics.update(service)
    return Reply(generate_latest(service.metrics.registry), CONTENT_TYPE_LATEST)
