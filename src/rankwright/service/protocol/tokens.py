"""Tokens of the API, sessions of the pages, and the rate of each client."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankwright.exceptions import DataError
from rankwright.service.protocol.problems import Problem

SCOPES = ("rank", "feedback", "judge", "admin")
SESSION = "rankwright_session"
SESSION_SECONDS = 12 * 3600
MOST_CLIENTS = 10_000  # addresses and tokens whose rate is remembered


@dataclass(frozen=True)
class Principal:
    """Who sends a request: the name of the token, and what it may do."""

    name: str
    scopes: frozenset[str] = frozenset(SCOPES)


ANYONE = Principal("local")


@dataclass(frozen=True)
class Tokens:
    """Tokens by the SHA-256 of each; none at all means that everybody may do everything."""

    principals: tuple[tuple[bytes, Principal], ...] = ()

    @classmethod
    def read(cls, path: Any) -> Tokens:
        """Tokens from a file: ``token``, ``name token`` or ``name token scope,scope`` a line."""
        lines = enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1)
        rows = [(n, line.split()) for n, line in lines if line.strip() and line.strip()[0] != "#"]
        if not rows:
            raise DataError(f"{path} has no token. Write one to it, such as {secrets.token_hex()}.")
        return cls(tuple(_parse_token(path, number, words) for number, words in rows))

    @classmethod
    def of(cls, *tokens: str) -> Tokens:
        """Tokens with every right, named token, token2, ..."""
        names = ["token", *(f"token{i}" for i in range(2, len(tokens) + 1))]
        return cls(tuple((_digest(t), Principal(n)) for t, n in zip(tokens, names, strict=False)))

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


def _parse_token(path: Any, number: int, words: list[str]) -> tuple[bytes, Principal]:
    name, token = (words[0], words[1]) if len(words) > 1 else ("token", words[0])
    scopes = words[2].split(",") if len(words) > 2 else list(SCOPES)
    unknown = sorted(set(scopes) - set(SCOPES))
    if len(token) < 16 or len(words) > 3 or unknown:
        fault = f"scope {unknown[0]!r} is unknown" if unknown else "a token has 16 or more letters"
        raise DataError(
            f"{path}:{number}: {fault}. Write TOKEN, NAME TOKEN or NAME TOKEN SCOPES; scopes are "
            f"{', '.join(SCOPES)}, joined by commas."
        )
    return _digest(token), Principal(name, frozenset(scopes))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@dataclass
class Sessions:
    """Cookies that carry a name and an expiry, signed; nothing is kept on the server."""

    secret: bytes
    tokens: Tokens

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
        if not self.tokens.principals:
            return ANYONE
        found = self.tokens.named(name)
        return None if found is None else found[1]

    def csrf(self, cookie: str) -> str:
        """What forms and scripts of this session's pages send back."""
        return self._sign("csrf", cookie, "")

    def _sign(self, purpose: str, text: str, name: str) -> str:
        found = self.tokens.named(name)
        message = b"\0".join([purpose.encode(), text.encode(), b"" if found is None else found[0]])
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()


@dataclass
class RateLimit:
    """A token bucket per client: ``rate`` requests a second, bursts of twice as many."""

    rate: float
    buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def check(self, client: str) -> None:
        now = time.monotonic()
        left, then = self.buckets.pop(client, (2 * self.rate, now))
        left = min(2 * self.rate, left + (now - then) * self.rate)
        self.buckets[client] = (max(left - 1, 0.0), now)
        if len(self.buckets) > MOST_CLIENTS:
            self.buckets.popitem(last=False)
        if left < 1:
            seconds = max(1, round((1 - left) / self.rate))
            raise Problem(
                429,
                f"More than {self.rate:g} requests a second. Wait {seconds} s, or send several "
                "lists in one request.",
                retry_after=str(seconds),
            )


def session_cookie(value: str, *, secure: bool = False) -> str:
    """The Set-Cookie header of a session."""
    flags = "Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
    return f"{SESSION}={value}; Max-Age={SESSION_SECONDS}; {flags}"
