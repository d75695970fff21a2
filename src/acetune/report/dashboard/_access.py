"""Who may read: the checks before every request, and the headers on every answer.

On a loopback address the name in the ``Host`` header has to be one of this machine: a page of
another site, whose name was made to lead here, has its own name there. With a token, every request
has to carry it: once in the address (``?token=``), from then on in a cookie, or as
``Authorization: Bearer``.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acetune.core.errors import GoalError
from acetune.report.dashboard._connection_limits import Connections

_METHODS = ("GET", "HEAD")
_KNOWN_READER = (303,)  # answers to those who have shown the token, though not yet a page
_HOST = re.compile(r"(?:\[([0-9a-f:]+)\]|([0-9a-z.-]+))(?::[0-9]*)?")
_TOKEN = re.compile(r"[A-Za-z0-9._~-]+")

# plotly.js makes an empty style element and adds its rules to it by code: the hash is that of "".
_NO_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        f"style-src 'self' {_NO_STYLE}",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("box")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def choose_token(host: str, token: str | None) -> str | None:
    """The token that readers need: the given one, or a new one where the address needs one.

    >>> choose_token("127.0.0.1", None) is None
    True
    >>> choose_token("0.0.0.0", "open-sesame")
    'open-sesame'
    """
    if token is None:
        return None if is_loopback(host) else secrets.token_urlsafe(24)
    if not _TOKEN.fullmatch(token):
        raise GoalError(
            f"the token must be made of letters, digits and . _ ~ -, got {token!r}; leave it out, "
            "and one is made where the address needs it"
        )
    return token


class AccessControl:
    """Answers only those who may ask, only what may be asked, and never without the headers."""

    def __init__(
        self,
        app: ASGIApp,
        connections: Connections,
        *,
        host: str,
        token: str | None,
        cookie: str,
    ) -> None:
        self._app, self._connections = app, connections
        self._token, self._cookie = token, cookie
        # on another address the names are not known here, and the token does the same
        self._only_loopback = is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        peer = scope["client"] or ("", 0)
        self._connections.begins(peer)
        try:
            refusal = self._refusal(scope)
            if refusal is None or refusal.status_code in _KNOWN_READER:
                self._connections.admit(peer)
            else:
                refusal.headers["Connection"] = "close"
            await (refusal or self._app)(scope, receive, send_with_headers)
        finally:
            self._connections.ends(peer)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._only_loopback and not is_loopback(_host_name(headers.get("host", ""))):
            return PlainTextResponse(
                "This page is for the machine it runs on; open it as http://localhost, "
                "or through a tunnel that ends there.\n",
                status_code=421,
            )
        if scope["method"] not in _METHODS:
            return PlainTextResponse(
                "This page is for reading.\n", status_code=405, headers={"Allow": "GET, HEAD"}
            )
        return None if self._token is None else self._unknown(scope, headers, self._token)

    def _unknown(self, scope: Scope, headers: Mapping[str, str], token: str) -> Response | None:
        """What to answer someone who does not carry the token, or carries it in the address."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given and _same(given[-1], token):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            # a path that begins with two slashes would lead to another server
            path = "/" + quote(scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
            welcome = Response(status_code=303, headers={"Location": path})
            welcome.set_cookie(self._cookie, token, httponly=True, samesite="strict")
            return welcome
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        carried = [bearer.strip()] if kind.lower() == "bearer" else []
        # leniently: other servers of the same name have cookies too, of any form
        carried.append(cookie_parser(headers.get("cookie", "")).get(self._cookie, ""))
        if any(_same(one, token) for one in carried):
            return None
        refused = PlainTextResponse(
            "This page needs its token: open the address that `acetune dashboard` printed.\n",
            status_code=401,
            headers={"WWW-Authenticate": "Bearer"},
        )
        if headers.get("sec-fetch-site") == "cross-site" and scope["path"] == "/":
            # a link on another site was followed: the browser keeps the cookie back this once
            refused.headers["Refresh"] = "0"
        return refused


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def _host_name(host: str) -> str:
    """The name in a Host header, without its port; nothing where it is not a name and a port.

    >>> _host_name("LocalHost:80"), _host_name("[::1]:80"), _host_name("[::1].example")
    ('localhost', '::1', '')
    """
    found = _HOST.fullmatch(host.lower())
    return (found[1] or found[2]) if found else ""
