"""Where workers on other machines report for work: a port, and a key that only they were given.

The key is random for each run and never leaves the driver but with the workers. A connection that
does not prove to know it is closed before anything it says is unpickled. After that the traffic is
neither signed nor encrypted, like Ray's own.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
import threading
from collections import deque
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import NamedTuple

from acetune.run._messages import DriverChannel, WorkerChannel

_HANDSHAKE_S = 10
_CONNECT_S = 30
_TOKEN_BYTES = 16
# a peer that vanished without a word: first probe, between probes, how many
_KEEPALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))
_UNANSWERED_MS = 30_000


class Pass(NamedTuple):
    """What a worker needs to get in."""

    address: tuple[str, int]
    key: bytes
    token: bytes  # tells the driver which of its workers it is

    def __repr__(self) -> str:  # the key shall not get into a log
        return f"Pass({self.address})"


class ConnectionListener:
    """Takes connections in threads of its own; the driver's thread collects them.

    ``bell`` becomes readable when someone has come.
    """

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, 0), family=family, backlog=128)
        except OSError:  # an address that this machine does not know as its own (NAT)
            self._socket = socket.create_server(("", 0), family=family, backlog=128)
        self._address = (host, int(self._socket.getsockname()[1]))
        self._key = secrets.token_bytes(32)
        self._come: deque[tuple[bytes, DriverChannel]] = deque()
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        threading.Thread(target=self._accept, name="acetune-connections", daemon=True).start()

    @property
    def bell(self) -> int:
        """Becomes readable when a worker has come in."""
        return self._bell.fileno()

    def new_pass(self) -> Pass:
        """For one worker."""
        return Pass(self._address, self._key, secrets.token_bytes(_TOKEN_BYTES))

    def collect(self) -> list[tuple[bytes, DriverChannel]]:
        """The tokens and connections of those that have come in since the last call."""
        with contextlib.suppress(BlockingIOError):
            while self._bell.recv(4096):
                pass
        come = []
        while self._come:
            come.append(self._come.popleft())
        return come

    def close(self) -> None:
        """Take nobody any more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._socket.close()
        for _, connection in self.collect():
            connection.close()
        self._bell.close()
        self._button.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return  # closed
            # in a thread of its own: a caller that says nothing must not keep others waiting
            threading.Thread(target=self._let_in, args=(caller,), daemon=True).start()

    def _let_in(self, caller: socket.socket) -> None:
        connection = _connection_of(caller)
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            token = connection.recv_bytes(_TOKEN_BYTES)
            self._come.append((token, DriverChannel(_socket_of(connection))))
            self._button.send(b"!")
        except (AuthenticationError, EOFError, OSError):
            connection.close()  # not one of ours, or not any more


def enter(card: Pass) -> WorkerChannel:
    """The worker's side: connect to the driver and prove to belong to it."""
    connection = _connection_of(socket.create_connection(card.address, timeout=_CONNECT_S))
    answer_challenge(connection, card.key)
    deliver_challenge(connection, card.key)
    connection.send_bytes(card.token)
    return WorkerChannel(_socket_of(connection))


def _connection_of(peer: socket.socket) -> Connection:
    """For the handshake, in which nobody waits for long."""
    peer.setblocking(True)
    # a report is one small message whose answer is waited for: never wait to fill a packet
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*_KEEPALIVE, ("TCP_USER_TIMEOUT", _UNANSWERED_MS)):
        if hasattr(socket, name):  # not on every system
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    _limit_waiting(peer, _HANDSHAKE_S)
    return Connection(peer.detach())


def _socket_of(connection: Connection) -> socket.socket:
    """The socket of a connection that has served its purpose, the handshake."""
    with connection:
        peer = socket.socket(fileno=os.dup(connection.fileno()))
    _limit_waiting(peer, 0)
    return peer


def _limit_waiting(peer: socket.socket, seconds: int) -> None:
    """How long a read may wait; 0 is for ever."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))
