"""Figures on disk: HTML that needs no network, or images drawn by a browser without a window."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from acetune.core.errors import AcetuneError, GoalError
from acetune.core.import_on_use import import_extra
from acetune.study.atomic_write import replacing

IMAGES = (".png", ".svg", ".pdf")


def write_figures(figures: Mapping[Path | str, go.Figure], *, scale: float = 2.0) -> None:
    """Write several figures with one start of the browser, which takes longer than a figure.

    The suffix of a name says how: .html, .png, .svg or .pdf. HTML holds plotly.js and needs neither
    browser nor network. Images need kaleido, and Chrome or Chromium. Folders are made; ``scale`` is
    the pixels of a PNG for each of the figure's.
    """
    paths = {Path(path): figure for path, figure in figures.items()}
    for path in paths:
        if path.suffix.lower() not in (".html", *IMAGES):
            known = ", ".join((".html", *IMAGES))
            raise GoalError(f"cannot write {str(path)!r}: its name must end in one of {known}")
    images = {path: figure for path, figure in paths.items() if path.suffix.lower() in IMAGES}
    drawn = _draw(images, scale) if images else {}  # before anything is written
    for path, figure in paths.items():
        with replacing([path]) as (part,):
            part.write_bytes(drawn[path] if path in drawn else _html(figure).encode())


def _html(figure: go.Figure) -> str:
    text: str = figure.to_html(
        include_plotlyjs=True,
        include_mathjax=False,
        full_html=True,
        div_id="figure",  # else a random one: the same figure gives the same file
        config={"displaylogo": False},
    )
    return text


def _draw(figures: Mapping[Path, go.Figure], scale: float) -> dict[Path, bytes]:
    kaleido = import_extra("kaleido", "kaleido", "png")
    errors = import_extra("choreographer.errors", "kaleido", "png")
    # in a thread of its own: the caller, a notebook say, may have a running event loop
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(asyncio.run, _draw_all(kaleido, figures, scale)).result()
        except errors.ChromeNotFoundError:
            raise AcetuneError(
                "images are drawn by Chrome or Chromium, and none was found. Install one (Debian, "
                "Ubuntu:  apt install chromium), run  kaleido_get_chrome,  or set BROWSER_PATH to "
                "one; or write .html, which needs none"
            ) from None
        except (errors.BrowserFailedError, errors.BrowserClosedError) as error:
            raise AcetuneError(f"the browser that draws images failed: {error}") from error
        except TimeoutError:
            raise AcetuneError("the browser that draws images did not answer in time") from None


def _options(path: Path, scale: float) -> dict[str, Any]:
    kind = path.suffix.lower()[1:]
    return {"format": kind, "scale": scale if kind == "png" else 1}


async def _draw_all(
    kaleido: Any, figures: Mapping[Path, go.Figure], scale: float
) -> dict[Path, bytes]:
    # without MathJax: kaleido would fetch it from the network
    async with kaleido.Kaleido(n=1, mathjax=False) as browser:
        return {
            path: await browser.calc_fig(figure, opts=_options(path, scale))
            for path, figure in figures.items()
        }
