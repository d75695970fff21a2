"""A result in a notebook: its summary and its first picture, as HTML that needs no script."""

from __future__ import annotations

from acetune.core.errors import AcetuneError
from acetune.report._markup import element, to_html
from acetune.report._static_figure import still
from acetune.report.figures import page_figures
from acetune.study.reader import viewing
from acetune.study.result import StudyResult

# colours that are read on white and on black; the page's own styles are not here
_STYLE = """
.acetune-result figure { max-width: 46rem; margin: 0 0 1rem; }
.acetune-result figcaption { font-size: 13px; max-width: 40rem; }
.acetune-result .still { position: relative; display: grid; font-size: 13px; line-height: 18px;
  grid-template-columns: auto auto minmax(0, 1fr); padding: 10px 12px 80px 0; }
.acetune-result .still > svg { display: block; width: 100%; overflow: visible; }
.acetune-result .still > .upwards { writing-mode: vertical-rl; transform: rotate(180deg);
  text-align: center; white-space: nowrap; }
.acetune-result .still > .room { visibility: hidden; padding: 0 8px 0 6px; }
.acetune-result .still svg svg:not([viewBox]) { overflow: visible; }
.acetune-result .still text { fill: currentColor; font-size: 13px; }
.acetune-result .still .grid { stroke: rgba(128, 128, 128, .25); }
.acetune-result .still .axis { stroke: rgba(128, 128, 128, .8); }
.acetune-result .still ul { position: absolute; left: 59px; right: 0; bottom: 5px; margin: 0;
  padding: 0; display: flex; flex-wrap: wrap; gap: 0 10px; list-style: none; }
.acetune-result .still li { display: flex; gap: 5px; }
"""


def result_html(result: StudyResult) -> str:
    """The result as HTML: the summary's table, and below it the best feasible over time.

    Without its study file, which may have been deleted, it is the table alone.
    """
    table = result._repr_html_()
    try:
        with viewing(result.study) as view:
            (figure,) = page_figures(view, first=True)
    except AcetuneError:
        return table
    if not figure["figure"]["data"]:
        return table
    caption = element("figcaption", element("b", figure["title"]), ". ", figure["caption"])
    picture = to_html(element("figure", caption, still(figure), aria_label=figure["alt"]))
    return f'<div class="acetune-result"><style>{_STYLE}</style>{table}{picture}</div>'
