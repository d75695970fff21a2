"""What is answered: the page, its styles and scripts, its content, one trial, and what is new."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import html
import re
from collections.abc import AsyncIterator, Callable
from functools import cache

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from acetune.report._markup import clean
from acetune.report.dashboard._access import AccessControl
from acetune.report.dashboard._connection_limits import Connections
from acetune.report.dashboard._study_follower import Watcher, to_json
from acetune.report.html import live_beginning, plotly_js, script, stylesheet

_STATIC: dict[str, tuple[str, Callable[[], str]]] = {
    "page.css": ("text/css", stylesheet),
    "page.js": ("text/javascript", script),
    "plotly.js": ("text/javascript", plotly_js),
}
_SMALL = 1_000_000  # bytes that are compressed at once
_PAGE_FIRST_S = 5.0
_PATIENCE_S = 0.1  # after which a page is begun before its content is there
_REVALIDATE = "private, no-cache"  # kept, but asked for every time: 304 if it is the same


def make_app(
    watcher: Watcher, connections: Connections, *, host: str, token: str | None, cookie: str
) -> ASGIApp:
    """The application that serves what ``watcher`` sees, to those who may read it."""
    pages = _Pages(watcher)
    routes = [
        Route("/", pages.page),
        Route("/favicon.ico", _no_icon),
        Route("/static/{name}", pages.static),
        Route("/api/content", pages.content),
        Route("/api/trials/{number}", pages.trial),
        Route("/api/events", pages.events),
    ]
    app = Starlette(routes=routes)
    return AccessControl(app, connections, host=host, token=token, cookie=cookie)


class _Pages:
    """One method a path."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._packing: asyncio.Task[None] | None = None

    async def page(self, request: Request) -> Response:
        """The page with its content, or one that waits for the study."""
        if request.method == "GET" and not await self._watcher.ready(_PATIENCE_S):
            return StreamingResponse(self._page_in_parts(), media_type="text/html")
        edition = await self._watcher.edition()
        if edition.problem is not None:
            return Response(_waiting_page(edition.problem), media_type="text/html", status_code=503)
        packed = await self._watcher.in_thread(lambda: edition.packed_page)
        return _packed(request, edition.page, packed, f'"{edition.number}"', "text/html")

    async def _page_in_parts(self) -> AsyncIterator[bytes]:
        """A large study takes a while to read: the browser gets ready for the page meanwhile.

        The page then comes with its first figure; it is told of the others like of all that is new.
        """
        beginning = live_beginning()
        yield beginning.encode()
        edition = await self._watcher.edition(whole=False)
        if edition.problem is not None:
            yield _waiting_page(edition.problem).removeprefix(beginning).encode()
        else:
            page = await self._watcher.in_thread(lambda: edition.page)
            yield page.removeprefix(beginning.encode())

    async def static(self, request: Request) -> Response:
        """Styles and scripts."""
        name = request.path_params["name"]
        if name not in _STATIC:
            return PlainTextResponse("There is nothing here.\n", status_code=404)
        asset = await run_in_threadpool(_asset, name)
        if asset.packed is None and self._packing is None:
            self._packing = asyncio.create_task(self._pack(asset))
        return _packed(request, asset.body, asset.packed, asset.tag, asset.media)

    async def _pack(self, asset: _Asset) -> None:
        """Compress plotly.js for slow lines, once server and browser have had time for the page."""
        await asyncio.sleep(_PAGE_FIRST_S)
        await run_in_threadpool(asset.pack)

    async def content(self, request: Request) -> Response:
        """Everything that the page shows, as JSON."""
        edition = await self._watcher.edition()
        if edition.problem is not None:
            return JSONResponse({"problem": edition.problem}, status_code=503)
        packed = await self._watcher.in_thread(lambda: edition.packed)
        return _packed(request, edition.body, packed, f'"{edition.number}"', "application/json")

    async def trial(self, request: Request) -> Response:
        """One trial, as JSON."""
        number = request.path_params["number"]
        found = None
        if re.fullmatch("[0-9]{1,9}", number):
            found = await self._watcher.trial(int(number))
        if found is None:
            return JSONResponse({"problem": f"no trial {number[:20]}"}, status_code=404)
        return Response(found, media_type="application/json")

    async def events(self, request: Request) -> Response:
        """Server-sent events: ``changed`` and ``problem``, the latest at once."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=headers)
        return StreamingResponse(self._stream(), media_type="text/event-stream", headers=headers)

    async def _stream(self) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        async for edition in self._watcher.editions():
            if edition is None:
                yield b": still here\n\n"
            elif edition.problem is not None:
                yield _event("problem", {"problem": edition.problem})
            else:
                yield _event("changed", {"seq": edition.seq, "edition": edition.number})


def _event(name: str, data: dict[str, object]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), to_json(data))


class _Asset:
    """A file of the page."""

    def __init__(self, media: str, text: str) -> None:
        self.media, self.body = media, text.encode()
        self.tag = f'"{hashlib.sha256(self.body).hexdigest()[:20]}"'
        self.packed: bytes | None = None
        if len(self.body) < _SMALL:
            self.pack()

    def pack(self) -> None:
        """Compress it."""
        self.packed = gzip.compress(self.body, compresslevel=6, mtime=0)


@cache
def _asset(name: str) -> _Asset:
    media, text = _STATIC[name]
    return _Asset(media, text())


def _packed(request: Request, body: bytes, packed: bytes | None, tag: str, media: str) -> Response:
    """An answer that is compressed for those who take it, and empty for those who have it."""
    headers = {"ETag": tag, "Cache-Control": _REVALIDATE, "Vary": "Accept-Encoding"}
    known = [one.strip().removeprefix("W/") for one in
             request.headers.get("if-none-match", "").split(",")]  # fmt: skip
    if tag in known:
        return Response(status_code=304, headers=headers)
    if packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = packed
    return Response(body, media_type=media, headers=headers)


async def _no_icon(_: Request) -> Response:
    return Response(status_code=204)


def _waiting_page(problem: str) -> str:
    """A page that looks again by itself."""
    return live_beginning() + (
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="refresh" content="2"><title>Waiting - acetune</title>'
        "</head><body>"
        '<header class="top"><p class="brand">acetune</p><h1>Waiting for the study</h1></header>'
        "<main><section>"
        f'<p class="words" role="status">{html.escape(clean(problem[:2000]))}</p>'
        "<p>It appears as soon as the study file does: begin the study, or end this dashboard and "
        "give it the path of another one. This page looks again every two seconds.</p>"
        "</section></main></body></html>\n"
    )
