"""Where workers on other machines report for work: a port, and a key that only they were given.

The key is random for each run and never leaves the driver but with the workers. A connection that
does not prove to know it is closed before anything it says is unpickled. After that each message is
sealed with a key of its connection, and what is not what the other end sent, in that order, is not
unpickled either. Nothing is encrypted, as in Ray's own traffic.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
import struct
import threading
import time
from collections import deque
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import NamedTuple

from acetune.interprocess.frames import Seal
from acetune.run._messages import DriverChannel, WorkerChannel

_HANDSHAKE_S = 10
_CONNECT_S = 30
_TOKEN_BYTES = 16
_DRIVER, _WORKER = b"driver", b"worker"
_MOST_STRANGERS = 64  # whose handshake is not over
_AGAIN_S = 0.2  # after which is looked whether there is room for a connection again
# a peer that vanished without a word: first probe, between probes, how many. One that is stopped
# answers probes; a limit on what waits to be read (TCP_USER_TIMEOUT) would give it up.
_KEEPALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))


class Pass(NamedTuple):
    """What a worker needs to get in."""

    address: tuple[str, int]
    key: bytes
    token: bytes  # tells the driver which of its workers it is

    def seal(self, sends: bytes, hears: bytes) -> Seal:
        """For the messages of one end of the connection; a token is used for one alone."""
        return Seal(hmac.digest(self.key, self.token, "sha256"), sends, hears)

    def __repr__(self) -> str:  # the key must not get into a log
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
        self._strangers: dict[socket.socket, None] = {}  # oldest first
        self._tokens: set[bytes] = set()  # of those that may still come in
        self._closed = False
        self._changing = threading.Lock()
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
        card = Pass(self._address, self._key, secrets.token_bytes(_TOKEN_BYTES))
        self._tokens.add(card.token)
        return card

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
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._socket.close()
        for _, connection in self.collect():
            connection.close()
        self._bell.close()
        self._button.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                caller, _ = self._socket.accept()
            except OSError:  # closed; or out of descriptors, or who called has gone
                time.sleep(_AGAIN_S)
                continue
            with self._changing:
                if len(self._strangers) >= _MOST_STRANGERS:
                    self._send_away(next(iter(self._strangers)))
                self._strangers[caller] = None
            try:
                # in a thread of its own: one that says nothing must not keep others waiting
                threading.Thread(target=self._let_in, args=(caller,), daemon=True).start()
            except RuntimeError:  # there is no room for a thread
                self._send_away(caller)
                caller.close()

    def _send_away(self, caller: socket.socket) -> None:
        self._strangers.pop(caller, None)
        with contextlib.suppress(OSError):
            caller.shutdown(socket.SHUT_RDWR)  # its thread notices

    def _let_in(self, caller: socket.socket) -> None:
        with caller, contextlib.suppress(AuthenticationError, EOFError, OSError):
            try:
                _prepare(caller)
                with Connection(os.dup(caller.fileno())) as connection:
                    deliver_challenge(connection, self._key)
                    answer_challenge(connection, self._key)
                    token = connection.recv_bytes(_TOKEN_BYTES)
            finally:
                with self._changing:
                    self._strangers.pop(caller, None)
            with self._changing:
                if token not in self._tokens:  # not one of ours, or not any more
                    return
                self._tokens.remove(token)
            _limit_waiting(caller, 0)
            seal = Pass(self._address, self._key, token).seal(_DRIVER, _WORKER)
            mine = socket.socket(fileno=caller.detach())
            self._come.append((token, DriverChannel(mine, seal)))
            self._button.send(b"!")


def enter(card: Pass) -> WorkerChannel:
    """The worker's side: connect to the driver and prove to belong to it."""
    give_up_at = time.monotonic() + _CONNECT_S
    while True:
        try:
            return _enter(card)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            # the driver has no descriptor left, perhaps for a moment
            if time.monotonic() > give_up_at:
                raise ConnectionError("it takes nobody") from None
            time.sleep(_AGAIN_S)


def _enter(card: Pass) -> WorkerChannel:
    with socket.create_connection(card.address, timeout=_CONNECT_S) as caller:
        _prepare(caller)
        with Connection(os.dup(caller.fileno())) as connection:
            answer_challenge(connection, card.key)
            deliver_challenge(connection, card.key)
            connection.send_bytes(card.token)
        _limit_waiting(caller, 0)
        mine = socket.socket(fileno=caller.detach())
        return WorkerChannel(mine, card.seal(_WORKER, _DRIVER))


def _prepare(peer: socket.socket) -> None:
    """For the handshake, in which nobody waits for long."""
    peer.setblocking(True)
    # a report is one small message whose answer is waited for: never wait to fill a packet
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):  # not on every system
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    _limit_waiting(peer, _HANDSHAKE_S)


def _limit_waiting(peer: socket.socket, seconds: int) -> None:
    """How long a read may wait; 0 is for ever."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))
