"""Messages over a socket, in frames: a mark, the length, a seal if agreed, the message as bytes.

One end may wait (:class:`BlockingChannel`). The other never does (:class:`NonBlockingChannel`),
whatever its peer sends, leaves half sent, or does not read: a process that hangs in the middle of a
message must not keep others waiting. Bytes that are no frame, and frames that are no message, break
the channel.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_HEAD = struct.Struct("!4sQ")
_MARK = b"ace\x02"
_READ_BYTES = 1 << 16
_READ_AT_ONCE = 1 << 22  # of one peer, before others are listened to again

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]


class MessageError(Exception):
    """What came is not a message."""


class Seal:
    """Proves that messages come from who knows the key: all of them, in their order, as they were.

    Parameters
    ----------
    key:
        Of one connection alone, at most 64 bytes.
    sends, hears:
        Names of this end and of the other one.
    """

    size = 16

    def __init__(self, key: bytes, sends: bytes, hears: bytes) -> None:
        self._key, self._sends, self._hears = key, sends, hears
        self._sent = self._heard = 0

    def of_next(self, message: bytes) -> bytes:
        """The seal of the next message to be sent."""
        self._sent += 1
        return self._made(self._sends, self._sent, message)

    def require(self, seal: bytes, message: bytes) -> None:
        """That it belongs to the next message to be heard, else :class:`MessageError`."""
        self._heard += 1
        if not hmac.compare_digest(seal, self._made(self._hears, self._heard, message)):
            raise MessageError("its seal is not that of the other end")

    def _made(self, end: bytes, count: int, message: bytes) -> bytes:
        made = hashlib.blake2b(
            message, key=self._key, digest_size=self.size, salt=count.to_bytes(16), person=end
        )
        return made.digest()


class _Channel:
    """What both ends share.

    Parameters
    ----------
    connected:
        The socket; it belongs to the channel from now on.
    encode, decode:
        From messages to bytes and back; messages are bytes unless told otherwise. ``decode`` gives
        no None, and raises :class:`MessageError` for what is not a message.
    max_bytes:
        The longest message; None where both ends are trusted with any.
    seal:
        Where others could write to the connection too.
    """

    def __init__(
        self,
        connected: socket.socket,
        encode: Encode = bytes,
        decode: Decode = bytes,
        max_bytes: int | None = None,
        seal: Seal | None = None,
    ) -> None:
        self._socket, self._seal = connected, seal
        self._head = _HEAD.size + (0 if seal is None else seal.size)
        self._encode, self._decode, self._max_bytes = encode, decode, max_bytes
        self._come: bytes | bytearray = b""  # and not yet cut into messages

    def fileno(self) -> int:
        """The number of the socket."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _framed(self, message: object) -> bytes:
        """A message as it travels."""
        data = self._encode(message)
        if self._max_bytes is not None and len(data) > self._max_bytes:
            raise ValueError(f"a message of {len(data):,} bytes is too large to send")
        seal = b"" if self._seal is None else self._seal.of_next(data)
        return _HEAD.pack(_MARK, len(data)) + seal + data

    def _add(self, data: bytes) -> None:
        """More has come. Nearly always it is one message: that is not copied."""
        if not self._come:
            self._come = data
        else:
            if isinstance(self._come, bytes):
                self._come = bytearray(self._come)
            self._come += data

    def _next(self) -> Any:
        """The next message, None while it is not whole; raises MessageError if it is none."""
        size = len(self._come)
        if not size:
            return None
        if size < _HEAD.size:
            if not _MARK.startswith(self._come[: len(_MARK)]):
                raise MessageError(f"it began with {bytes(self._come)!r}")
            return None
        mark, length = _HEAD.unpack_from(self._come)
        if mark != _MARK:
            raise MessageError(f"it began with {bytes(self._come[:20])!r}")
        if self._max_bytes is not None and length > self._max_bytes:
            raise MessageError(f"its length was given as {length:,} bytes")
        end = self._head + length
        if size < end:
            return None
        come = self._come
        if isinstance(come, bytes):
            found = come[self._head : end]
        else:
            found = bytes(memoryview(come)[self._head : end])
        if self._seal is not None:
            self._seal.require(bytes(self._come[_HEAD.size : self._head]), found)
        if size == end:
            self._come = b""
        else:
            if isinstance(self._come, bytes):
                self._come = bytearray(self._come)
            del self._come[:end]
        return self._decode(found)


class BlockingChannel(_Channel):
    """An end that waits until a message has gone out, or has come."""

    def __init__(self, connected: socket.socket, *coding: Any) -> None:
        super().__init__(connected, *coding)
        self._sending = threading.Lock()

    def send(self, message: object) -> None:
        """Send a message whole, also where several threads send."""
        with self._sending:
            self._socket.sendall(self._framed(message))

    def receive(self) -> Any:
        """The next message; EOFError when the other end has gone."""
        while (message := self._next()) is None:
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise EOFError
            self._add(data)
        return message


class NonBlockingChannel(_Channel):
    """An end that takes what has come, and sends what fits.

    Attributes
    ----------
    ended:
        The other end is closed.
    broken:
        What came that is no message, in words; None while all is well. Nothing is read after it.
    """

    def __init__(self, connected: socket.socket, *coding: Any) -> None:
        super().__init__(connected, *coding)
        connected.setblocking(False)
        self._unsent: deque[memoryview] = deque()
        self.ended = False
        self.broken: str | None = None

    @property
    def sending(self) -> bool:
        """Whether something waits to be sent: call :meth:`flush` when the socket takes more."""
        return bool(self._unsent)

    def send(self, message: object) -> None:
        """Send a message now, or as soon as the other end reads. To one that is gone: never."""
        data = self._framed(message)
        sent = 0
        if not self._unsent:
            try:
                sent = self._socket.send(data)
            except OSError:  # it takes nothing now, or is gone: see flush
                sent = 0
        if sent < len(data):
            self._unsent.append(memoryview(data)[sent:])
            self.flush()

    def flush(self) -> None:
        """Send as much as the socket takes."""
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent[0])
                if sent == len(self._unsent[0]):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = self._unsent[0][sent:]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._unsent.clear()  # nobody will read it; that the peer has gone is noticed above

    def receive(self) -> list[Any]:
        """The messages that are here, oldest first; see ``ended`` and ``broken`` afterwards."""
        messages: list[Any] = []
        count = 0
        while not (self.ended or self.broken) and count < _READ_AT_ONCE:
            try:
                data = self._socket.recv(_READ_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                data = b""
            if not data:
                self.ended = True
                break
            count += len(data)
            self._add(data)
            try:
                while (message := self._next()) is not None:
                    messages.append(message)
            except MessageError as error:
                self.broken = str(error)
            if len(data) < _READ_BYTES:
                break  # there was no more: spare the call that would say so
        return messages
