"""The messages of a study between driver and worker, over a socket.

The worker's end waits; the driver's end never does. What is not a message breaks the channel, which
the driver notices as it does a death.
"""

from __future__ import annotations

import socket

from acetune.interprocess.frames import BlockingChannel, NonBlockingChannel
from acetune.run.messages import decode, decode_from_worker, encode

_MAX_BYTES = 1 << 28  # large folders travel in pieces; nothing else comes near it


class WorkerChannel(BlockingChannel):
    """The worker's end."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected, encode, decode, _MAX_BYTES)


class DriverChannel(NonBlockingChannel):
    """The driver's end."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected, encode, decode_from_worker, _MAX_BYTES)
