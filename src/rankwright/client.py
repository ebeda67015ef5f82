"""A small client of the service: retries, idempotency keys, one connection per thread."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from rankwright.exceptions import ParameterError, RankwrightError

RETRIED = (429, 502, 503, 504)  # statuses of a service that is busy, starts or stops
LONGEST_WAIT = 10.0  # seconds between two attempts


class ServiceError(RankwrightError, OSError):
    """A request that was refused or not answered; ``status`` is 0 if no answer came."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message, kind="service")
        self.status = status


class Client:
    """The operations of a service as methods; answers are plain objects.

    A request that was not answered, or answered with 429, 502, 503 or 504, is sent again after a
    growing random wait, or the wait that ``Retry-After`` asks for. Feedback has an id of its own,
    the same at every attempt, so that it counts once.

    Parameters
    ----------
    url : where the service is, such as "http://127.0.0.1:8000"
    token : the token to send, if the service needs one
    timeout : seconds to wait for an answer
    retries : how often a request is sent again
    wait : seconds before the second attempt; doubled for each one after it

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000", token="...")  # doctest: +SKIP
    >>> items = [{"id": "a", "features": [0.3, 1.2]}, {"id": "b", "features": [0.9, 0.1]}]
    >>> answer = client.rank(items, query="red shoes")  # doctest: +SKIP
    >>> client.feedback(answer["event"], clicks=["b"])  # doctest: +SKIP
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retries: int = 4,
        wait: float = 0.1,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ParameterError(
                f"url={url!r}: write http://HOST:PORT or https://HOST.", parameter="url"
            )
        self.url, self.token, self.timeout = url.rstrip("/"), token, timeout
        self.retries, self.wait = retries, wait
        self._prefix = parts.path.rstrip("/")
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connect: Callable[[], Any] = partial(
            kind, str(parts.hostname), parts.port, timeout=timeout
        )
        self._local = threading.local()

    # Ranking.

    def rank(self, items: Sequence[Mapping[str, Any]] | None = None, **request: Any) -> Any:
        """Rank items; more fields, such as ``query``, ``user`` and ``n``, are those of the API."""
        if items is not None:
            request["items"] = list(items)
        return self._post("/v1/rank", request)

    def rank_many(self, requests: Sequence[Mapping[str, Any]]) -> Any:
        """Rank several lists in one request."""
        return self._post("/v1/rank", list(requests))

    def recommend(self, **request: Any) -> Any:
        """Recommend items to a ``user``, or to one with ``ratings``."""
        return self._post("/v1/recommend", request)

    def fuse(self, runs: Mapping[str, Any], **request: Any) -> Any:
        """Fuse the lists of several engines."""
        return self._post("/v1/fuse", {"runs": dict(runs), **request})

    def feedback(self, event: str, *, id: str | None = None, **content: object) -> Any:
        """Send ``grades``, ``clicks`` or ``preferences`` for the list of an event.

        ``id`` is the idempotency key; by default a new one, the same at every attempt.
        """
        key = uuid.uuid4().hex if id is None else id
        return self._post("/v1/feedback", {"event": event, "id": key, **content})

    # Models and experiments.

    def models(self) -> Any:
        return self._get("/v1/models")

    def model(self, version: str) -> Any:
        return self._get(f"/v1/models/{quote(version, safe='')}")

    def drift(self, version: str, *, lists: int = 1000) -> Any:
        """The columns of the latest lists of a model, compared with training."""
        return self._get(f"/v1/models/{quote(version, safe='')}/drift", {"lists": str(lists)})

    def upload(self, content: bytes, name: str = "model", *, activate: bool = False) -> Any:
        """Upload a model file; the same bytes have the same version."""
        options = {"name": name, "activate": str(activate).lower()}
        return self._call("POST", "/v1/models", options, content, "application/octet-stream")

    def activate(self, version: str) -> Any:
        return self._call("POST", f"/v1/models/{quote(version, safe='')}/activate")

    def rollback(self) -> Any:
        """Undo the last activation; not sent again if no answer came."""
        return self._call("POST", "/v1/models/rollback", once=True)

    def shadow(self, version: str, on: bool = True) -> Any:
        path = f"/v1/models/{quote(version, safe='')}/shadow"
        return self._call("POST" if on else "DELETE", path)

    def delete_model(self, version: str) -> Any:
        return self._call("DELETE", f"/v1/models/{quote(version, safe='')}", once=True)

    def train(self, **request: Any) -> Any:
        """Train a ranker on the log; not sent again if no answer came."""
        return self._post("/v1/train", request, once=True)

    def experiments(self) -> Any:
        return self._get("/v1/experiments")

    def experiment(self, name: str) -> Any:
        return self._get(f"/v1/experiments/{quote(name, safe='')}")

    def create_experiment(self, name: str, models: Sequence[str], **request: Any) -> Any:
        body = {"name": name, "models": list(models), **request}
        return self._post("/v1/experiments", body, once=True)

    def stop_experiment(self, name: str) -> Any:
        return self._call("DELETE", f"/v1/experiments/{quote(name, safe='')}")

    # The log and the service.

    def log(self, **options: Any) -> Iterator[Any]:
        """The entries of the log, one after another."""
        for line in self._get("/v1/log", {**options, "format": "jsonl"}, as_text=True).splitlines():
            yield json.loads(line)

    def export(self, format: str = "qrels", **options: Any) -> str:
        """The grades of the log as "qrels" or "letor" lines."""
        return str(self._get("/v1/log", {**options, "format": format}, as_text=True))

    def delete_user(self, user: str) -> Any:
        return self._call("DELETE", "/v1/log", {"user": user})

    def replication(self) -> Any:
        """Whether the service leads, and how far its replicas are."""
        return self._get("/v1/replica")

    def promote(self) -> Any:
        """Let a replica lead; the leader before it is fenced."""
        return self._call("POST", "/v1/promote")

    def health(self) -> Any:
        return self._get("/healthz")

    def ready(self) -> bool:
        """Whether the service is ready, asked once."""
        try:
            self._call("GET", "/readyz", once=True, attempts=1)
        except ServiceError:
            return False
        return True

    def metrics(self) -> str:
        return str(self._get("/metrics", as_text=True))

    def openapi(self) -> Any:
        return self._get("/openapi.json")

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Sending.

    def _get(self, path: str, options: Mapping[str, Any] | None = None, **more: Any) -> Any:
        return self._call("GET", path, options, **more)

    def _post(self, path: str, content: object, **more: Any) -> Any:
        body = json.dumps(content, allow_nan=False).encode()
        return self._call("POST", path, None, body, "application/json", **more)

    def _call(
        self,
        method: str,
        path: str,
        options: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        media: str | None = None,
        *,
        once: bool = False,
        attempts: int | None = None,
        as_text: bool = False,
    ) -> Any:
        """Send a request until it is answered; ``once``: not again if it may have been done."""
        target = self._prefix + path
        if options:
            target += "?" + urlencode({k: v for k, v in options.items() if v is not None})
        headers = {} if self.token is None else {"authorization": f"Bearer {self.token}"}
        if media is not None:
            headers["content-type"] = media
        attempts = self.retries + 1 if attempts is None else attempts
        for attempt in range(attempts):
            last = attempt == attempts - 1
            pause = min(LONGEST_WAIT, self.wait * 2**attempt) * random.uniform(0.5, 1.0)
            try:
                status, content, after = self._send(method, target, body, headers)
            except ConnectionRefusedError as error:  # nothing was sent
                if last:
                    raise ServiceError(0, f"{self.url}{path}: {error}.") from error
            except (OSError, http.client.HTTPException) as error:
                if last or once:
                    raise ServiceError(0, f"{self.url}{path}: no answer ({error!r}).") from error
            else:
                if status < 400:
                    return content.decode() if as_text else json.loads(content)
                if last or status not in RETRIED:
                    raise ServiceError(status, f"{self.url}{path}: {_detail(status, content)}")
                pause = max(pause, min(after, LONGEST_WAIT))
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _send(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes, float]:
        """The status, the body and the seconds of Retry-After of an answer."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        try:
            connection.request(method, target, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
        except BaseException:
            self.close()
            raise
        after = answer.headers.get("retry-after", "")
        return answer.status, content, float(after) if after.isdigit() else 0.0


def _detail(status: int, content: bytes) -> str:
    """What a problem document says."""
    try:
        return f"{status}: {json.loads(content)['detail']}"
    except (ValueError, KeyError, TypeError):
        return f"{status}: {content[:200].decode(errors='replace')}"
