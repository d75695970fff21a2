"""Connections that hold out: half-sent requests are ended, and strangers are kept few.

A stranger is who has not shown yet that they may read. Without limits one of them could keep a
connection for each descriptor that this process may have, and readers would find no room.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

Peer = tuple[str, int]

ASKING_S = 10.0  # for a request to come whole, its body not included
MOST_STRANGERS = 64


class Connections:
    """All connections of a server, by the address of their other end."""

    def __init__(self) -> None:
        self._open: dict[Peer, _Connection] = {}
        self._strangers: dict[Peer, _Connection] = {}  # oldest first

    def make(self, **options: Any) -> asyncio.Protocol:
        """A connection; the arguments are for uvicorn's own protocol."""
        return _Connection(self, AutoHTTPProtocol(**options))

    def begins(self, peer: Peer) -> None:
        """A request has come whole."""
        if peer in self._open:
            self._open[peer].limit(None)

    def ends(self, peer: Peer) -> None:
        """It was answered: the next one is waited for."""
        if peer in self._open:
            self._open[peer].limit(ASKING_S)

    def admit(self, peer: Peer) -> None:
        """Who is there may read."""
        self._strangers.pop(peer, None)

    def opened(self, peer: Peer, connection: _Connection) -> None:
        """Somebody has come; the stranger who has been here for longest may have to go."""
        self._open[peer] = self._strangers[peer] = connection
        if len(self._strangers) > MOST_STRANGERS:
            self._strangers.pop(next(iter(self._strangers))).abort()

    def closed(self, peer: Peer, connection: _Connection) -> None:
        """Somebody has gone."""
        for known in (self._open, self._strangers):
            if known.get(peer) is connection:
                del known[peer]


class _Connection(asyncio.Protocol):
    """Hands on all there is to uvicorn's protocol, and looks at the clock."""

    def __init__(self, connections: Connections, inner: asyncio.Protocol) -> None:
        self._connections, self._inner = connections, inner
        self._peer: Peer = ("", 0)
        self._transport: asyncio.BaseTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        for name in ("data_received", "eof_received", "pause_writing", "resume_writing"):
            setattr(self, name, getattr(inner, name))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._peer = (transport.get_extra_info("peername") or ("", 0))[:2]
        self._connections.opened(self._peer, self)
        self.limit(ASKING_S)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.limit(None)
        self._connections.closed(self._peer, self)
        self._inner.connection_lost(exc)

    def limit(self, seconds: float | None) -> None:
        """End the connection unless this is called again so soon."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def abort(self) -> None:
        """End it, whatever is still to be sent."""
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()
