"""The page of all figures of speed, and the figures in README and documentation that it is for.

The benchmarks write ``benchmarks/results/NAME.json``; this makes ``docs/results/speed.md`` of them
and gives every link to a figure on that page, such as ``[0.3 ms](results/speed.md#report-1)``, the
figure as its text. A link to a figure that no benchmark has written is an error, and so is a time
or size in the documentation that leads to no source.

    python tools/make_speed_page.py [--check | --due NAME...]
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.source_hash import source_hash
from tools.speed_curves import CURVES, curves

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/results/speed.md"
ELSEWHERE = {"gpu"}  # needs a machine of its own: marked when it is older, and no release waits
BUSY = 0.1  # share of the processors' time that others may take before it is told
LINK = re.compile(r"\[([^\]]*)\]\(((?:[^)\s]*/)?speed\.md)#([\w-]+)\)")
ANY_LINK = re.compile(r"\[[^\]]*\]\([^)]*\)")
CODE = re.compile(r"^(`{3,}).*?^\1|^ {4}.*?$|`[^`\n]*`|<!--.*?-->", re.MULTILINE | re.DOTALL)
MEASURED = re.compile(
    r"\b\d[\d.,]*(?: (?:to|or|and) \d[\d.,]*)? "
    r"(?:µs|ms|MB|(?:times|%) (?:as (?:long|fast|expensive)|faster|slower|cheaper))\b"
    r"|\b(?:takes?|took|costs?) (?:some |about )?\d[\d.,]* s\b"
)
NOT_MEASURED = {  # looks like a measurement of speed; is a rule, a setting or an example
    "policies.md": {"1.5 times as long"},  # how checks are spaced
    "gallery.md": {"0.5 ms"},  # limits
    "latency.md": {"0.25 ms"},
    "local.md": {"100 MB", "200 MB", "18 MB", "400 MB"},  # a threshold; what sharing saves
    "faults.md": {"100 MB", "1 MB"},  # sizes of the models that a figure is about
    "callbacks.md": {"1.4 times as long", "4 to 8 times as long"},  # CatBoost's own steps
}
INTRODUCTION = """# Speed

What acetune costs, beside what people use instead. The page is made from `benchmarks/results/`; \
every figure of speed in the README and in this documentation leads here.

    make bench                              # what was not measured on this code, see below
    make bench BENCHMARKS=decision_cost     # one of them
    make bench AGAIN=1                      # measured or not
    make bench-quick                        # under five minutes; writes nothing

All of it takes 60 to 75 minutes on two cores that nothing else uses. It may be interrupted: each \
benchmark writes its own result, and the next `make bench` goes on with those that are missing or \
that measured other code.

Contenders take turns in one run, round by round: compare ratios, not times. `acetune` and \
`beside` are medians over the rounds, with the least and the most in brackets; `ratio` is the \
median of acetune's value over the other's within each round. \
[What each benchmark does](../../benchmarks/README.md).
"""


class ProblemError(Exception):
    """Figures and their sources do not agree."""


def results(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """What the benchmarks of speed have written, by name."""
    found = {}
    for path in sorted((root / "benchmarks" / "results").glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if "figures" in result and "measures" in result:
            found[path.stem] = result
    return found


def older(found: Mapping[str, Mapping[str, Any]], root: Path = ROOT) -> list[str]:
    """The benchmarks that measured other code than there is now."""
    return [
        name
        for name, result in found.items()
        if source_hash(result["measures"], root=root) != result["code"]
    ]


def due(names: Sequence[str], root: Path = ROOT) -> list[str]:
    """Those of the benchmarks that have not measured the code there is now."""
    found = results(root)
    measured = {*found} - {*older(found, root)}
    return [name for name in names if name not in measured]


# -- figures ---------------------------------------------------------------------------------------


def number(value: float) -> str:
    """With as many digits as mean something.

    >>> [number(value) for value in (0.03172, 1.5, 13.7, 224.5, 115203.0, 0.0)]
    ['0.032', '1.5', '14', '224', '115,000', '0']
    """
    if value == 0:
        return "0"
    digits = 3 if abs(value) >= 100 else 2
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    return f"{rounded:,.{max(places, 0)}f}".removesuffix(".0")


def ratio(value: float) -> str:
    """With two decimals where it is near 1, for there they matter.

    >>> [ratio(value) for value in (0.0367, 0.8, 1.149, 13.7)]
    ['0.037', '0.80', '1.15', '14']
    """
    return f"{value:.2f}" if 0.1 <= value < 10 else number(value)


def texts(found: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """What a link to a figure says, and the benchmark it comes from, by anchor."""
    made = {}
    for name, result in found.items():
        for figure in result["figures"]:
            ours, peer = figure["ours"]["median"], figure["peer"]
            made[figure["name"]] = f"{number(ours)} {figure['unit']}", name
            if peer is not None:
                made[f"{figure['name']}-beside"] = (
                    f"{number(peer['median'])} {figure['unit']}",
                    name,
                )
                made[f"{figure['name']}-ratio"] = f"{ratio(figure['ratio']['median'])} times", name
    return made


# -- the page --------------------------------------------------------------------------------------


def page(found: Mapping[str, Mapping[str, Any]]) -> str:
    """All of it, as Markdown."""
    wanted = [
        figure for result in found.values() for figure in result["figures"] if figure["wanted"]
    ]
    missed = [figure for figure in wanted if not figure["reached"]]
    parts = [INTRODUCTION, "## What was wanted\n"]
    parts.append(f"{len(wanted) - len(missed)} of {len(wanted)} aims are reached. Missed:\n")
    rows = [
        f"| [{figure['what']}](#{figure['name']}) | {_judged(figure)} | {_wanted(figure)} |"
        for figure in missed
    ]
    parts.append("\n".join(["| | measured | wanted |", "|---|---:|---:|", *rows, ""]))
    for name, result in found.items():
        parts += [f"## {result['title']}\n", _about(name, result), _table(result)]
        parts += [f"![{CURVES[curve].title}]({picture(name, curve)})\n" for curve in curves(result)]
        parts.append("\n".join(result["details"]).strip() + "\n")
    return "\n".join(parts)


def picture(name: str, curve: str) -> str:
    """The file of a curve, beside the page."""
    return f"speed-{name}-{curve}.svg"


def _about(name: str, result: Mapping[str, Any]) -> str:
    lines = [
        f"    {result['command']}",
        "",
        f"{result['made']}; {result['versions']}; code `{result['code']}`.",
    ]
    if result["beside"] > BUSY:
        lines.append(
            f"Other programs took {result['beside']:.0%} of this machine's processors meanwhile: "
            "times are too long, ratios may be off."
        )
    return "\n".join([*lines, ""])


def _table(result: Mapping[str, Any]) -> str:
    rows = ["| | acetune | beside | | ratio | wanted |", "|---|---:|---:|---|---:|---:|"]
    for figure in result["figures"]:
        name, unit, peer = figure["name"], figure["unit"], figure["peer"]
        cells = [figure["what"], f'<a id="{name}"></a>{_spread(figure["ours"])} {unit}']
        if peer is None:
            cells += ["", "", ""]
        else:
            cells += [
                f'<a id="{name}-beside"></a>{_spread(peer)} {unit}',
                peer["name"],
                f'<a id="{name}-ratio"></a>{_spread(figure["ratio"], ratio)}',
            ]
        reached = "" if figure["reached"] is not False else ": missed"
        rows.append(f"| {' | '.join([*cells, _wanted(figure) + reached])} |")
    return "\n".join([*rows, ""])


def _spread(values: Mapping[str, Any], written: Callable[[float], str] = number) -> str:
    median, low, high = (written(values[part]) for part in ("median", "low", "high"))
    return median if low == high else f"{median} ({low} to {high})"


def _wanted(figure: Mapping[str, Any]) -> str:
    signs = {"most": "≤", "least": "≥"}
    wanted = figure["wanted"] or {}
    return ", ".join(f"{signs[k]} {v:,g}" for k, v in wanted.items() if v is not None)


def _judged(figure: Mapping[str, Any]) -> str:
    if figure["ratio"] is None:
        return f"{number(figure['ours']['median'])} {figure['unit']}"
    return f"{ratio(figure['ratio']['median'])} times {figure['peer']['name']}"


# -- the documents ---------------------------------------------------------------------------------


def documents(root: Path = ROOT) -> Iterator[Path]:
    """Those whose figures have to have a source."""
    yield root / "README.md"
    for path in sorted((root / "docs").rglob("*.md")):
        if (root / "docs" / "results") not in path.parents:
            yield path


def with_figures(text: str, found: Mapping[str, Mapping[str, Any]], where: str) -> str:
    """A document with the figures of now."""
    known = texts(found)
    sections = {slug(result["title"]) for result in found.values()} | {"what-was-wanted"}

    def set_figure(link: re.Match[str]) -> str:
        if link[3] in sections:
            return link[0]
        if link[3] not in known:
            raise ProblemError(f"{where}: no benchmark has written a figure {link[3]!r}: {link[0]}")
        return f"[{known[link[3]][0]}]({link[2]}#{link[3]})"

    return LINK.sub(set_figure, text)


def without_source(text: str, page: str) -> list[str]:
    """Times and sizes in a document that lead to no source."""
    prose = ANY_LINK.sub("", CODE.sub("", text))
    known = NOT_MEASURED.get(page, ())
    return [found[0] for found in MEASURED.finditer(prose) if found[0] not in known]


def slug(title: str) -> str:
    """What a heading is linked to by."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def made(root: Path = ROOT) -> dict[Path, str]:
    """What the files should say: the page, and every document with the figures of now."""
    found = results(root)
    files = {root / PAGE: page(found)}
    for name, result in found.items():
        for curve, drawn in curves(result).items():
            files[(root / PAGE).with_name(picture(name, curve))] = drawn
    for path in documents(root):
        where = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        files[path] = with_figures(text, found, where)
        loose = without_source(text, path.name)
        if loose:
            raise ProblemError(
                f"{where} has figures without a source: {loose}; link them to a figure of {PAGE}, "
                "or, if they are not measured, name them in NOT_MEASURED of this script"
            )
    return files


def require_agreement(root: Path = ROOT) -> None:
    """Raise where a file says other figures than the results."""
    for path, text in made(root).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            where = path.relative_to(root).as_posix()
            raise ProblemError(f"{where} is not of today: run python tools/make_speed_page.py")


def marked(text: str, root: Path = ROOT, old: Collection[str] | None = None) -> str:
    """A document for the site, in which figures that are older than their code have a mark."""
    found = results(root)
    known = texts(found)
    old = set(older(found, root) if old is None else old)

    def mark(link: re.Match[str]) -> str:
        stale = link[3] in known and known[link[3]][1] in old
        return f"[{link[1]} †]({link[2]}#{link[3]})" if stale else link[0]

    changed = LINK.sub(mark, text)
    if changed != text:
        changed += "\n\n† Measured before the code that it measures was changed.\n"
    return changed


def marked_page(text: str, root: Path = ROOT) -> str:
    """The page itself, with a sentence at each benchmark that measured other code."""
    found = results(root)
    for name in older(found, root):
        heading = f"## {found[name]['title']}\n"
        note = f"**Measured on older code**: `make bench BENCHMARKS={name}` measures it again.\n"
        text = text.replace(heading, f"{heading}\n{note}")
    return text


def main() -> None:
    """Write all of it, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where they differ"
    )
    parser.add_argument(
        "--due", nargs="*", metavar="NAME", help="print which benchmarks have to run; write nothing"
    )
    options = parser.parse_args()
    if options.due is not None:
        print(" ".join(due(options.due)))
        return
    if options.check:
        require_agreement()
    else:
        for path, text in made().items():
            path.write_text(text, encoding="utf-8")
    for name in older(results()):
        print(f"measured on older code: make bench BENCHMARKS={name}")


if __name__ == "__main__":
    try:
        main()
    except ProblemError as problem:
        sys.exit(f"error: {problem}")
