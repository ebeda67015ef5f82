"""A client that keeps cookies and follows redirects, without a socket."""

from __future__ import annotations

import asyncio

import httpx


class Client:
    """Requests to an ASGI application, one after the other."""

    def __init__(self, app) -> None:
        self.app, self.cookies = app, httpx.Cookies()

    def request(self, method, path, *, follow_redirects=True, **options):
        return asyncio.run(self._send(method, path, follow_redirects, options))

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    async def _send(self, method, path, follow, options):
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(
            transport=transport,
            base_url="http://localhost",
            cookies=self.cookies,
            follow_redirects=follow,
        ) as client:
            answer = await client.request(method, path, **options)
            self.cookies = client.cookies
            return answer
