"""The report: one HTML file that opens offline, and the same page for the dashboard.

The file holds everything, plotly.js too, and says in its content-security policy that nothing
else may be loaded or run: scripts and styles only with the hashes given there, no network at all.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from string import Template
from typing import Any

from acetune.core.errors import AcetuneError
from acetune.report._content import content as page_content
from acetune.report._markup import Content, clean, short, to_html
from acetune.report._sections import first_trials, picture, sections
from acetune.report._static_figure import still
from acetune.report._trials import trial_detail
from acetune.report.figures import FigureData, chosen_trials
from acetune.study.atomic_write import replacing
from acetune.study.integrity import understanding
from acetune.study.reader import StudyView

SCRIPTS = ("dom.js", "figures.js", "slider.js", "trials.js", "live.js", "page.js")
_SCRIPT_LINK = '<script src="static/page.js"></script>'
_LIVE_LINKS = (
    '<link rel="stylesheet" href="static/page.css">'
    '<link rel="preload" as="script" href="static/plotly.js">'  # run later, by the page's script
)
_FIRST = "progress"  # the figure that stands below the answer
_WHAT_IF = "what_if"  # the one that stands beside its slider
_LATEST_STOPPED = 10  # stopped trials whose details are in the report
_DATA_BYTES = 900_000  # about, of a report: what figures and trials leave is for the details


def write_report(study: StudyView | Path | str, out: Path | str) -> Path:
    """Write the report of a study as one HTML file, and give its path.

    ``study`` is a study file, or a view of one that is open already. A study that runs may be
    reported on too: the file shows how it stands.
    """
    view = study if isinstance(study, StudyView) else StudyView(Path(study))
    try:
        with understanding(view.path, AcetuneError):
            text = render(report_content(view))
    finally:
        if view is not study:
            view.close()
    path = Path(out)
    with replacing([path]) as (part,):  # whole or not at all: a browser may have the old one open
        part.write_text(text, encoding="utf-8")
    return path


def report_content(view: StudyView) -> dict[str, Any]:
    """The content of a page that has no server to ask: with the details of some trials."""
    found = page_content(view)
    found["parts"] = sections(found)
    details: dict[int, Any] = {}
    room = _DATA_BYTES - len(_data(found))
    digest = FigureData(view)
    for trial in _spoken_of(found, chosen_trials(digest)):
        detail = trial_detail(view, trial, digest)
        room -= len(json.dumps(detail))
        if room < 0 and details:  # that of the answer, the first, is always there
            break
        details[trial] = detail
    found["details"] = details
    return found


def _spoken_of(content: Content, drawn: Iterable[int]) -> list[int]:
    """Trials of which the page speaks, the answer first, and those that were stopped last."""
    answer = content["answer"]
    found = [answer["best"], *answer["candidates"], *answer["nearest_misses"]]
    trials = [one["trial"] for one in found if one is not None] + list(drawn)
    columns, rows = content["trials"]["columns"], content["trials"]["rows"]
    trial, state = columns.index("trial"), columns.index("state")
    trials[1:1] = [row[trial] for row in rows if row[state] == "stopped"][-_LATEST_STOPPED:]
    return list(dict.fromkeys(trials))


# -- the page --------------------------------------------------------------------------------------


def render(content: Content, *, live: bool = False) -> str:
    """The page as HTML.

    By default everything is in it. With ``live`` it takes its styles and scripts from ``static/``
    and then asks ``api/`` for what is new; the server sends the content-security policy.
    """
    parts = content["parts"]
    figures = {f["id"]: to_html(parts[f"figure-{f['id']}"]) for f in content["figures"]}
    # the first is a picture before plotly.js is there; later its place is kept as it is
    figures |= {
        f["id"]: to_html(picture(f, still(f))) for f in content["figures"] if f["id"] == _FIRST
    }
    name = clean(short(content["study"]["name"], 200))
    return _template().substitute(
        policy="" if live else _policy(),
        styles=(_LIVE_LINKS if live else f"<style>{stylesheet()}</style>") + _plotly_styles(),
        title=html.escape(f"{name} - acetune"),
        live=' data-live=""' if live else "",
        heading=html.escape(name),
        **{p: to_html(parts[p]) for p in ("lead", "answer", "numbers", "running")},
        **{p: to_html(parts[p]) for p in ("confirmations", "settings")},
        first_figure=figures.pop(_FIRST, ""),
        what_if_figure=figures.pop(_WHAT_IF, ""),
        figures="".join(figures.values()),
        trials=to_html(first_trials(content)),
        version=metadata.version("acetune"),
        content=f'<script type="application/json" id="content">{_data(content)}</script>',
        scripts=_SCRIPT_LINK if live else _inline(),
    )


def _data(content: Content) -> str:
    """The data of the page; what is written as HTML already is left out."""
    data = {key: value for key, value in content.items() if key != "parts"}
    data["trials"] = content["trials"] | _packed(content["trials"])
    data["figures"] = [{"id": f["id"], "figure": f["figure"]} for f in content["figures"]]
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    # so that no string can end the element or open a comment in it
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _packed(trials: Content) -> dict[str, Any]:
    """The rows of the table of trials, words that come again and again as numbers of a list."""
    words: dict[int, list[str]] = {}
    rows = trials["rows"]
    packed = [list(row) for row in rows]
    for place in range(len(trials["columns"])):
        found = dict.fromkeys(row[place] for row in rows if row[place] is not None)
        if 4 * len(found) > len(rows) or not all(isinstance(word, str) for word in found):
            continue
        words[place] = list(found)
        numbers = {None: None} | {word: number for number, word in enumerate(found)}
        for row in packed:
            row[place] = numbers[row[place]]
    return {"rows": packed, "words": words}


def live_beginning() -> str:
    """What every live page begins with: a browser that has it is ready when the rest comes."""
    return _asset("page.html").partition("$policy")[0] + _LIVE_LINKS


def _inline() -> str:
    return "".join(f"<script>{text}</script>\n" for text in (script(), plotly_js()))


@cache
def _policy() -> str:
    rules = (
        f"default-src 'none'; script-src {_hashes([script(), plotly_js()])}; "
        f"style-src {_hashes([stylesheet(), ''])}; base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


def _hashes(texts: Iterable[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in texts)
    return " ".join(f"'sha256-{digest.decode()}'" for digest in digests)


@cache
def _plotly_styles() -> str:
    """Style elements that plotly.js finds in place of those it would make.

    It makes one that is empty and adds rules to it by code, which the hash of nothing allows. It
    makes another, full of rules for maps, unless an element has its id: here is that element.
    """
    ids = re.findall(r'getElementById\("([0-9a-f]{64})"\)', plotly_js())
    return "".join(f'<style id="{found}"></style>' for found in dict.fromkeys(ids))


# -- what it is made of ----------------------------------------------------------------------------


@cache
def _template() -> Template:
    return Template(_asset("page.html"))


@cache
def stylesheet() -> str:
    """The styles of the page."""
    return _asset("page.css")


@cache
def script() -> str:
    """The script of the page: its files as one, with no name left outside."""
    return "(() => {\n'use strict';\n" + "\n".join(map(_asset, SCRIPTS)) + "\n})();\n"


@cache
def plotly_js() -> str:
    """plotly.js, from the package of that name."""
    from plotly.offline import get_plotlyjs  # here: it takes a while to import

    return str(get_plotlyjs())


def _asset(name: str) -> str:
    return resources.files("acetune.report").joinpath("assets", name).read_text("utf-8")
