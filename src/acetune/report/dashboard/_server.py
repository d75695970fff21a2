"""The server: where it listens, who may read, how it begins and ends."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any, NamedTuple, cast

import uvicorn

from acetune.core.errors import AcetuneError, GoalError
from acetune.report.dashboard._access import choose_token, is_loopback
from acetune.report.dashboard._app import make_app
from acetune.report.dashboard._connection_limits import Connections
from acetune.report.dashboard._study_follower import Watcher
from acetune.study.read_ahead import ReadAhead


class Address(NamedTuple):
    """Where a dashboard is found, and by whom."""

    host: str
    port: int
    token: str | None

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """What a browser opens, the token included.

        >>> Address("127.0.0.1", 8765, None).url
        'http://127.0.0.1:8765/'
        >>> Address("::1", 80, "secret").url
        'http://[::1]:80/?token=secret'
        """
        name = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        shown = f"[{name}]" if ":" in name else name
        return f"http://{shown}:{self.port}/" + (f"?token={self.token}" if self.token else "")


class DashboardServer:
    """Serves the live page of one study file, which need not exist yet.

    Parameters
    ----------
    study:
        The study file; it is only ever read.
    host, port:
        Where to listen; port 0 takes any that is free. On an address that others can reach
        readers need a token.
    token:
        The token; None makes one where the address needs it.
    ahead:
        Who has begun to read the study already, if somebody has.

    Listening begins at once, answering with :meth:`run`, which returns when :meth:`stop` was
    called, or raises KeyboardInterrupt at Ctrl-C.
    """

    def __init__(
        self,
        study: Path | str,
        *,
        host: str = "127.0.0.1",
        port: int = 8765,
        token: str | None = None,
        ahead: ReadAhead | None = None,
    ) -> None:
        path = Path(study)
        if path.is_dir():
            raise GoalError(f"study must be a file, and {str(path)!r} is a folder")
        chosen = choose_token(host, token)
        self._path, self._ahead = path, ahead
        self._socket = _listen(host, port)
        self.address = Address(host, self._socket.getsockname()[1], chosen)
        self._server: _Server | None = None
        self._stopped = False

    def run(self) -> None:
        """Answer until :meth:`stop` or Ctrl-C."""
        asyncio.run(self._run())

    def stop(self) -> None:
        """End :meth:`run`, from another thread."""
        self._stopped = True
        if self._server is not None:
            self._server.should_exit = True

    async def _run(self) -> None:
        watcher = Watcher(self._path, self._ahead)
        # read while the browser is being opened
        first = asyncio.create_task(watcher.edition(whole=False))
        connections = Connections()
        app = make_app(
            watcher,
            connections,
            host=self.address.host,
            token=self.address.token,
            cookie=f"acetune-{self.address.port}",  # cookies do not know ports
        )
        config = uvicorn.Config(
            app,
            http=cast(Any, connections.make),  # called like a class of protocols
            proxy_headers=False,  # connections are known by who is at their other end
            log_level="error",
            access_log=False,  # addresses carry the token
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=2,
        )
        self._server = _Server(config, watcher)
        self._server.should_exit = self._stopped
        await self._server.serve(sockets=[self._socket])
        await asyncio.wait([first])


class _Server(uvicorn.Server):
    """Ends the streams of events first: they never end by themselves."""

    def __init__(self, config: uvicorn.Config, watcher: Watcher) -> None:
        super().__init__(config)
        self._watcher = watcher

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn when it is to end."""
        self._watcher.close()
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise GoalError(f"port must lie between 0 and 65535, got {port}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(128)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise AcetuneError(
            f"cannot listen on {host} port {port}: {error.strerror}; give another one with --port "
            "(0: any that is free) or --host"
        ) from None
    return listening
