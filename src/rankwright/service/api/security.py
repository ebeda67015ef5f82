"""Who may do what: tokens, sessions and rates, and the ASGI layer that checks every request."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import os
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankwright.exceptions import DataError, ParameterError, Setting
from rankwright.service.api.problems import HttpProblem, as_problem, send_problem
from rankwright.service.api.routing import Api, S
from rankwright.service.logs import ACCESS, child_span, log_request

if TYPE_CHECKING:
    from rankwright.service.tracing import Tracing

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1", "testserver")
FOR_PROGRAMS = ("/metrics", "/openapi.json")  # no sign-in page for whoever reads these
HEALTH = ("/healthz", "/readyz")
OPEN_PATHS = (*HEALTH, "/login")
SCOPES = ("rank", "feedback", "judge", "admin")
NOBODY, LOCAL = "nobody", "local"  # names of requests without a token
SESSION = "rankwright_session"
SESSION_SECONDS = 12 * 3600
MOST_RUNNING = 256  # requests at once
MOST_CLIENTS = 10_000  # addresses and tokens whose rate is remembered
log = logging.getLogger("rankwright.service")


@dataclass(frozen=True)
class Principal:
    """Who sends a request: the name of the token, and what it may do; "admin" may do all."""

    name: str
    scopes: frozenset[str] = frozenset(SCOPES)

    def __post_init__(self) -> None:
        if "admin" in self.scopes:
            object.__setattr__(self, "scopes", frozenset(SCOPES))


ANYONE = Principal(LOCAL)


@dataclass(frozen=True)
class Tokens:
    """Tokens by the SHA-256 of each; none at all means that everybody may do everything."""

    principals: tuple[tuple[bytes, Principal], ...] = ()

    def __post_init__(self) -> None:
        names = [principal.name for _, principal in self.principals]
        for number, name in enumerate(names):
            if fault := _fault_of_name(name, names[:number]):
                raise ParameterError(f"tokens: {fault}")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Tokens:
        """Tokens from a file: ``token``, ``name token`` or ``name token scope,scope`` a line."""
        lines = enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1)
        found: dict[bytes, Principal] = {}
        for number, line in lines:
            if line.strip() and line.strip()[0] != "#":
                names = [principal.name for principal in found.values()]
                digest, principal = _parse_token(path, number, line.split(), len(found) + 1)
                fault = _fault_of_name(principal.name, names)
                if digest in found:
                    fault = "this token is given twice. Give each name a token of its own."
                if fault:
                    raise DataError(f"{path}:{number}: {fault}")
                found[digest] = principal
        if not found:
            raise DataError(f"{path} has no token. Write one to it, such as {secrets.token_hex()}.")
        return cls(tuple(found.items()))

    @classmethod
    def of(cls, *tokens: str) -> Tokens:
        """Tokens with every right, named token, token2, ..."""
        return cls(tuple((_digest(t), Principal(_numbered(n))) for n, t in enumerate(tokens, 1)))

    def find(self, token: str) -> Principal | None:
        """Whose token it is. The time taken does not depend on how much of it is right."""
        given, match = _digest(token), None
        for digest, principal in self.principals:
            if hmac.compare_digest(digest, given):
                match = principal
        return match

    def named(self, name: str) -> tuple[bytes, Principal] | None:
        return next((pair for pair in self.principals if pair[1].name == name), None)


NO_TOKENS = Tokens()


def _numbered(n: int) -> str:
    """The name of the n-th token, if it has none."""
    return "token" if n == 1 else f"token{n}"


def _fault_of_name(name: str, others: list[str]) -> str:
    if name in (NOBODY, LOCAL):
        return f"the name {name!r} is reserved for requests without a token. Use another name."
    if name in others:
        return f"the name {name!r} is used twice. Give each token a name of its own."
    return ""


def _parse_token(
    path: str | os.PathLike[str], number: int, fields: list[str], n: int
) -> tuple[bytes, Principal]:
    name, token = (fields[0], fields[1]) if len(fields) > 1 else (_numbered(n), fields[0])
    scopes = fields[2].split(",") if len(fields) > 2 else list(SCOPES)
    unknown = sorted(set(scopes) - set(SCOPES))
    if len(token) < 16 or len(fields) > 3 or unknown:
        fault = f"scope {unknown[0]!r} is unknown" if unknown else "a token has 16 or more letters"
        raise DataError(
            f"{path}:{number}: {fault}. Write TOKEN, NAME TOKEN or NAME TOKEN SCOPES; scopes are "
            f"{', '.join(SCOPES)}, joined by commas."
        )
    return _digest(token), Principal(name, frozenset(scopes))


def first_token(path: str | None) -> str | None:
    """The first token of a file that may do everything, to send to another service."""
    if path is None:
        return None
    lines = [line.split() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    fields = [line for line in lines if line and not line[0].startswith("#")]
    return next(
        (f[1] if len(f) > 1 else f[0] for f in fields if len(f) < 3 or "admin" in f[2].split(",")),
        None,
    )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@dataclass
class Sessions:
    """Cookies that carry a name and an expiry, signed with the token that was given for them.

    A session ends with its token, which the signature depends on. Only sessions that were ended
    before they expire are kept: ``ended`` has their cookies' ids and expiries.
    """

    secret: bytes
    tokens: Tokens
    ended: dict[str, int] = field(default_factory=dict)

    def issue(self, principal: Principal) -> str:
        """The value of a new cookie."""
        name = principal.name.encode().hex()
        text = f"{name}.{int(time.time()) + SESSION_SECONDS}.{secrets.token_hex(8)}"
        return f"{text}.{self._sign('session', text, principal.name)}"

    def open(self, cookie: str) -> Principal | None:
        """Whose session it is; None if it is forged, expired or its token is gone."""
        match = re.fullmatch(r"(([0-9a-f]*)\.(\d{1,12})\.[0-9a-f]{16})\.([0-9a-f]{64})", cookie)
        if match is None:
            return None
        try:
            name = bytes.fromhex(match[2]).decode()
        except ValueError:
            return None
        expected = self._sign("session", match[1], name)
        if not hmac.compare_digest(expected, match[4]) or int(match[3]) < time.time():
            return None
        if match[1] in self.ended:
            return None
        if not self.tokens.principals:
            return ANYONE
        named = self.tokens.named(name)
        return None if named is None else named[1]

    def end(self, cookie: str) -> None:
        """End a session that is open."""
        text, now = cookie.rpartition(".")[0], time.time()
        self.ended = {text: int(text.split(".")[1])} | {
            other: expiry for other, expiry in self.ended.items() if expiry >= now
        }

    def csrf(self, cookie: str) -> str:
        """What forms and scripts of this session's pages send back."""
        return self._sign("csrf", cookie, "")

    def _sign(self, purpose: str, text: str, name: str) -> str:
        named = self.tokens.named(name)
        digest = b"" if named is None else named[0]
        message = b"\0".join([purpose.encode(), text.encode(), digest])
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()


@dataclass
class RateLimit:
    """A token bucket per client: ``rate`` requests a second, bursts of twice as many."""

    rate: float
    buckets: OrderedDict[Any, tuple[float, float]] = field(default_factory=OrderedDict)

    def check(self, client: Hashable) -> None:
        now = time.monotonic()
        left, then = self.buckets.pop(client, (2 * self.rate, now))
        left = min(2 * self.rate, left + (now - then) * self.rate)
        self.buckets[client] = (max(left - 1, 0.0), now)
        if len(self.buckets) > MOST_CLIENTS:
            self.buckets.popitem(last=False)
        self.refuse(left)

    def refuse(self, left: float) -> None:
        """Refuse a request if less than one is left in the bucket of its client."""
        if left < 1:
            seconds = max(1, round((1 - left) / self.rate))
            raise HttpProblem(
                429,
                f"More than {self.rate:g} requests a second. Wait {seconds} s, or send several "
                "lists in one request.",
                retry_after=str(seconds),
            )


def session_cookie(value: str, *, secure: bool = False) -> str:
    """The Set-Cookie header of a session; without a value, one that deletes the cookie."""
    flags = "Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
    return f"{SESSION}={value}; Max-Age={SESSION_SECONDS if value else 0}; {flags}"


class Addresses:
    """Networks of proxies whose word for a client's address and scheme is taken.

    >>> proxies = Addresses(["10.0.0.0/8"])
    >>> scope = {"client": ("10.0.0.1", 80), "scheme": "http"}
    >>> hops = b"1.1.1.1, 8.8.8.8, 10.0.0.2"
    >>> proxies.forward(scope, {b"x-forwarded-for": hops, b"x-forwarded-proto": b"https"})
    >>> scope
    {'client': ('8.8.8.8', 0), 'scheme': 'https'}
    """

    def __init__(self, networks: Iterable[str]) -> None:
        try:
            self.networks = [ipaddress.ip_network(text, strict=False) for text in networks]
        except ValueError as error:
            raise ParameterError(
                Setting("trusted_proxies"), f": {error}. Write 10.0.0.5 or 10.0.0.0/8."
            ) from None

    def __bool__(self) -> bool:
        return bool(self.networks)

    def __contains__(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self.networks)

    def forward(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Put the client that a trusted proxy names into the scope."""
        if _address(scope) not in self:
            return
        hops = headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")
        client = next((hop.strip() for hop in reversed(hops) if hop.strip() not in self), "")
        if client:
            scope["client"] = (client, 0)
        if headers.get(b"x-forwarded-proto") in (b"http", b"https"):
            scope["scheme"] = headers[b"x-forwarded-proto"].decode()


class Security(Generic[S]):
    """The ASGI layer in front of everything: refuses what is not allowed, adds the headers.

    ``problem_page`` makes the page that a browser gets for a problem; without it, it gets JSON.
    """

    def __init__(
        self,
        app: Api[S],
        *,
        sessions: Sessions,
        hosts: Iterable[str] = (),
        max_body: int = 4 * 2**20,
        max_upload: int = 64 * 2**20,
        body_seconds: float = 20.0,
        rate: RateLimit | None = None,
        images: bool = False,
        proxies: Iterable[str] = (),
        problem_page: Callable[[Scope, HttpProblem], ASGIApp] | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.tracing, self._problem_page = tracing, problem_page
        self.app, self.sessions = app, sessions
        self.hosts = None if "*" in hosts else frozenset(h.lower() for h in (*LOOPBACK, *hosts))
        self.max_body, self.max_upload, self.body_seconds = max_body, max_upload, body_seconds
        self.rate = rate
        self.headers = security_headers(images)
        self.proxies = Addresses(proxies)
        self._n_running = 0
        self._last_host: bytes | None = None
        self._has_refused = False

    @property
    def service(self) -> S:
        return self.app.service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self.app(scope, receive, send)
            return
        started, status, start = False, 0, time.perf_counter()

        def send_safely(message: Message) -> Any:  # not a coroutine of its own: it costs time
            nonlocal started, status
            if message["type"] == "http.response.start":
                started, status = True, message["status"]
                message["headers"] = [*message.get("headers", ()), *self.headers]
                if "rankwright.trace" in scope:
                    message["headers"].append((b"traceparent", scope["rankwright.trace"]))
            return send(message)

        self._n_running += 1
        try:
            receive = await self._admit(scope, receive)
            await self.app(scope, receive, send_safely)
        except Exception as error:
            problem = as_problem(error)
            if problem.status == 500:
                log.exception("%s %s", scope["method"], scope["path"])
            if started:
                raise
            page = self._problem_page if problem.status != 303 and wants_page(scope) else None
            if page is not None:
                await page(scope, problem)(scope, receive, send_safely)
            else:
                await send_problem(send_safely, problem)
        finally:
            self._n_running -= 1
            if ACCESS.isEnabledFor(logging.INFO):
                log_request(scope, status, time.perf_counter() - start)
            if self.tracing is not None:
                self.tracing.record(scope, status, time.perf_counter() - start)

    async def _admit(self, scope: Scope, receive: Receive) -> Receive:
        """Check a request, then read its body within the limits; sets scope["principal"]."""
        headers = dict(scope["headers"])
        path, unsafe = scope["path"], scope["method"] not in ("GET", "HEAD", "OPTIONS")
        if b"traceparent" in headers and (trace := child_span(headers[b"traceparent"])):
            scope["rankwright.trace"] = trace
        elif self.tracing is not None:
            scope["rankwright.trace"] = self.tracing.new_trace()
        if self.proxies:
            self.proxies.forward(scope, headers)
        self._check_host(headers)
        api = path.startswith("/v1/")
        cookie = _cookie(headers) if b"cookie" in headers else ""
        scope["session"] = cookie
        principal = self._identify(headers, cookie)
        if path not in HEALTH:
            self._check_load(scope, principal, headers)
        if principal is None:
            if path not in OPEN_PATHS and not path.startswith("/static/"):
                raise _unauthorized(api or path in FOR_PROGRAMS, scope)
            principal = Principal(NOBODY, frozenset())
        scope["principal"] = principal
        binary = self.app.route(scope)
        if not unsafe:
            return receive
        body = await self._read_body(headers, receive, self.max_upload if binary else self.max_body)
        self._check_origin(headers)
        if not api:
            self._check_csrf(headers, cookie, body, path)
        elif b"authorization" not in headers:
            self._check_api_origin(headers, cookie, body)
        scope["rankwright.body"] = body
        return _Replay(body, receive)

    def _check_load(
        self, scope: Scope, principal: Principal | None, headers: dict[bytes, bytes]
    ) -> None:
        """Refuse what is too much: of one client, or of all together."""
        if self._n_running > MOST_RUNNING:
            raise HttpProblem(503, "Too many requests are being answered.", retry_after="1")
        if self.rate is None:
            return
        if principal is not None and self.sessions.tokens.principals:
            self.rate.check(("token", principal.name))
        else:  # whoever tries tokens locks out nobody but others who do
            self.rate.check((_address(scope), b"authorization" in headers))

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        """Refuse names that are not ours: a page elsewhere may point its name at this address."""
        if self.hosts is None:
            return
        sent = headers.get(b"host", b"")
        if sent == self._last_host:  # it was checked
            return
        name = re.sub(r":\d+$", "", sent.decode("latin-1").lower())
        if name not in self.hosts:
            if not self._has_refused:  # once: anybody can send names
                log.warning("refused the host %r; add it to allow_hosts to serve it", name[:100])
            self._has_refused = True
            raise HttpProblem(
                421,
                f"Host {name[:100]!r} is not a name of this service. Use the address that its "
                "operator gave you, or ask the operator to allow this name.",
            )
        self._last_host = sent

    def _identify(self, headers: dict[bytes, bytes], cookie: str) -> Principal | None:
        tokens = self.sessions.tokens
        if not tokens.principals:
            return ANYONE
        kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind:
            return tokens.find(token.strip()) if kind.lower() == "bearer" else None
        return self.sessions.open(cookie)

    async def _read_body(self, headers: dict[bytes, bytes], receive: Receive, limit: int) -> bytes:
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > limit:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(self.body_seconds):
                message = await receive()
                body: bytes = message.get("body", b"")
                if message.get("more_body"):
                    body = await _read_rest(message, receive, limit)
        except TimeoutError:
            raise HttpProblem(408, f"The body took more than {self.body_seconds:g} s.") from None
        if len(body) > limit:
            raise _too_large(limit)
        return body

    def _check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Refuse what a browser sends on behalf of another site's page."""
        site = headers.get(b"sec-fetch-site", b"none")
        origin = headers.get(b"origin")
        foreign = origin is not None and origin.split(b"://")[-1] != headers.get(b"host")
        if site not in (b"same-origin", b"none") or foreign:
            raise HttpProblem(
                403, "The request comes from a page of another site. Send it from ours."
            )

    def _check_csrf(self, headers: dict[bytes, bytes], cookie: str, body: bytes, path: str) -> None:
        if path == "/login":  # there is no session yet; the origin was checked
            return
        given = headers.get(b"x-csrf-token", b"").decode("latin-1")
        if not given:
            given = form_fields(body).get("csrf_token", "")
        if not cookie or not hmac.compare_digest(
            given.encode(), self.sessions.csrf(cookie).encode()
        ):
            raise HttpProblem(
                403, "The CSRF token is missing or old. Reload the page and try again."
            )

    def _check_api_origin(self, headers: dict[bytes, bytes], cookie: str, body: bytes) -> None:
        """A call without a bearer token: by a script of our pages, or by a local program.

        A page of another site can make a browser send forms and plain text, but no JSON.
        """
        if self.sessions.tokens.principals:
            self._check_csrf(headers, cookie, body, "")
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind and (not kind.startswith(b"application/") or b"form" in kind):
            shown = kind.decode("latin-1")[:60]
            raise HttpProblem(
                415,
                f"The content type is {shown}. Send application/json, application/msgpack, or "
                "application/octet-stream for a model file.",
            )


class _Replay:
    """A body that was read already, as an ASGI receive channel."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self.body: bytes | None = body
        self.receive = receive

    async def __call__(self) -> Message:
        if self.body is None:
            return await self.receive()
        body, self.body = self.body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _read_rest(message: Message, receive: Receive, limit: int) -> bytes:
    parts, size = [message.get("body", b"")], len(message.get("body", b""))
    while message.get("more_body"):
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_large(limit)
    return b"".join(parts)


def form_fields(body: bytes) -> dict[str, str]:
    """The fields of a posted form; the last one of each name."""
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        return {}
    return {name: values[-1] for name, values in fields.items()}


def security_headers(images: bool = False) -> list[tuple[bytes, bytes]]:
    """Headers of every answer; ``images`` lets pages show pictures of other sites."""
    pictures = " https: http:" if images else ""
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        f"img-src 'self' data:{pictures}; font-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    return [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),  # with no-referrer, forms come from the origin null
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cache-control", b"no-store"),
    ]


def is_loopback(host: str) -> bool:
    """Whether a host name or address can be reached from this machine only.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _cookie(headers: dict[bytes, bytes]) -> str:
    raw = headers.get(b"cookie")
    if raw is None:
        return ""
    try:
        cookies = SimpleCookie(raw.decode("latin-1"))
    except CookieError:
        return ""
    return cookies[SESSION].value if SESSION in cookies else ""


def wants_page(scope: Scope) -> bool:
    """Whether a person looks at the answer: browsers ask for HTML, programs do not."""
    if scope["method"] not in ("GET", "POST") or scope["path"].startswith("/v1/"):
        return False
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def _address(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else "unknown"


def _unauthorized(api: bool, scope: Scope) -> HttpProblem:
    if not api and scope["method"] == "GET":
        return HttpProblem(303, "Sign in first.", location="/login")
    return HttpProblem(
        401,
        "The token is missing or wrong. Send the header Authorization: Bearer TOKEN.",
        www_authenticate="Bearer",
    )


def _too_large(limit: int) -> HttpProblem:
    return HttpProblem(413, f"The body has more than {limit:,} bytes. Send it in several requests.")
