"""Draw a study as it went, for the gallery (`make_gallery.py`).

What is drawn is in the study file: on the left the learning curves with checks and stops, on the
right objective against constraint with the limit, the frontier as it moved, and the answer. Things
appear in the order in which they happened, once, in some ten seconds; where reduced motion is asked
for, all at once.

Colours follow the reader's light or dark scheme. They are never alone: what is valid is a disc,
what is not a diamond, what was stopped a cross.
"""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import pandas as pd

from acetune.export import to_csv

WIDTH, HEIGHT = 920, 430
TOP, BOTTOM = 86, 372
SECONDS = 9.0  # that the study takes in the picture
FRONTIERS = 12  # stages in which the frontier moves
STYLE = """
svg{--ground:#fff;--text:#1e1e1e;--quiet:#595959;--line:#c4c4c4;--curve:#9a9a9a;--valid:#007a59;
--invalid:#b84a00;--beyond:#fbeee6;--front:#007a59}
@media (prefers-color-scheme:dark){svg{--ground:#16181d;--text:#ececec;--quiet:#b0b0b0;
--line:#4a4d55;--curve:#74777f;--valid:#3ecf9f;--invalid:#ff9a5c;--beyond:#2c211b;--front:#3ecf9f}}
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:var(--text)}
.h{font-size:16px;font-weight:600}.q{fill:var(--quiet)}.e{text-anchor:end}.m{text-anchor:middle}
.a{stroke:var(--line);fill:none}.c{fill:none;stroke:var(--curve);stroke-width:1.1;
stroke-dasharray:1;animation:draw linear both}
.v{fill:var(--valid)}.i{fill:none;stroke:var(--invalid);stroke-width:1.3}
.x{fill:none;stroke:var(--text);stroke-width:1.6}.l{stroke:var(--invalid);stroke-width:1.6}
.f{fill:none;stroke:var(--front);stroke-width:2;opacity:0;animation:stage linear}
.f.last{opacity:1;animation:show .3s both}.g{fill:none;stroke:var(--valid);stroke-width:2.5}
.p{animation:show .25s both}
@keyframes draw{from{stroke-dashoffset:1}}@keyframes show{from{opacity:0}}
@keyframes stage{0%,100%{opacity:1}}
@media (prefers-reduced-motion:reduce){*{animation:none!important}}
"""


class Panel(NamedTuple):
    """Where values of two axes lie in the picture."""

    left: float
    right: float
    x: tuple[float, float]
    y: tuple[float, float]
    log: bool = False  # steps: most trials stop early

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point."""
        scale = math.log if self.log else float
        low, high = map(scale, self.x)
        across = (scale(min(max(x, self.x[0]), self.x[1])) - low) / (high - low)
        up = (min(max(y, self.y[0]), self.y[1]) - self.y[0]) / (self.y[1] - self.y[0])
        return (
            round(self.left + across * (self.right - self.left), 1),
            round(BOTTOM - up * (BOTTOM - TOP), 1),
        )

    def line(self, points: list[tuple[float, float]]) -> str:
        """The path through points."""
        places = (self.at(*point) for point in points)
        return "M" + "L".join(f"{x:g} {y:g}" for x, y in places)


class Study(NamedTuple):
    """What the picture shows of a study; of several constraints one with an upper limit."""

    trials: pd.DataFrame
    reports: pd.DataFrame
    checks: pd.DataFrame
    about: dict[str, Any]

    @property
    def constraint(self) -> dict[str, Any]:
        """The one that is drawn."""
        return next(one for one in self.about["constraints"] if one.get("upper") is not None)

    @property
    def rising(self) -> bool:
        """Whether a greater objective is better."""
        return bool(self.about["objective"]["mode"] == "max")


def read(file: Path) -> Study:
    """A study, as its export has it."""
    with tempfile.TemporaryDirectory() as folder:
        to_csv(file, folder)
        tables = (pd.read_csv(Path(folder) / f"{name}.csv") for name in NAMES)
        return Study(*tables, json.loads((Path(folder) / "study.json").read_text()))


NAMES = ("trials", "reports", "checks")


def picture(study: Study, what: str = "configurations of LightGBM") -> str:
    """The SVG."""
    name, limit = study.constraint["name"], study.constraint["upper"]
    objective = study.about["objective"]["name"]
    objective = {"auc": "AUC"}.get(objective, objective)
    checked = _checked(study)
    values = study.reports["objective"]
    low, high = (
        (values.quantile(0.05), values.max())
        if study.rising
        else (values.min(), values.quantile(0.95))
    )
    y = (math.floor(low * 50) / 50, math.ceil(high * 100) / 100)
    curves = Panel(64, 440, (1, study.reports["step"].max()), y, log=True)
    trade = Panel(520, 896, (0, round(limit * 2.4, 2)), y)
    when = Clock(study.reports["seq"].max())
    parts = [
        *_axes(curves, "step", objective), *_axes(trade, name, objective),
        *_limit(trade, limit), *_curves(study, curves, when),
        *_points(checked, curves, trade, when), *_frontiers(study, checked, trade, when),
        *_stops(study, curves, when), *_answer(study, trade, when), *_words(study, name, what),
    ]  # fmt: skip
    label = escape(_alt(study, name, limit), {'"': "&quot;"})
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{label}">\n<style>{STYLE}</style>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="var(--ground)"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


class Clock:
    """When something happens in the picture."""

    def __init__(self, reports: int) -> None:
        self._reports = reports

    def __call__(self, seq: float) -> float:
        """Seconds after the picture begins."""
        return round(0.4 + SECONDS * seq / self._reports, 2)

    @property
    def end(self) -> float:
        """When the search is over."""
        return self(self._reports)


def _checked(study: Study) -> pd.DataFrame:
    """Each check with the objective of its checkpoint, and whether that keeps all limits."""
    rows = study.reports.set_index("seq")
    checks = study.checks.dropna(subset=["value"])
    keeps = pd.Series(True, rows.index)
    for limit in study.about["constraints"]:
        value = checks[checks["constraint"] == limit["name"]].set_index("seq")["value"]
        within = value.between(limit.get("lower") or -math.inf, limit.get("upper") or math.inf)
        keeps &= within.reindex(keeps.index, fill_value=False)
    checks = checks[checks["constraint"] == study.constraint["name"]].copy()
    checks["objective"] = rows.loc[checks["seq"], "checked_objective"].to_numpy()
    checks["keeps"] = keeps.loc[checks["seq"]].to_numpy()
    return checks.dropna(subset=["objective"])


def _axes(panel: Panel, across: str, up: str) -> list[str]:
    x0, x1 = panel.left, panel.right
    made = [f'<path class="a" d="M{x0:g} {TOP}V{BOTTOM}H{x1:g}"/>']
    for value in panel.y:
        place = panel.at(panel.x[0], value)[1]
        made.append(f'<text class="q e" x="{x0 - 8:g}" y="{place + 4:g}">{value:g}</text>')
    for value in panel.x:
        place = panel.at(value, panel.y[0])[0]
        made.append(f'<text class="q m" x="{place:g}" y="{BOTTOM + 18}">{value:g}</text>')
    middle = (x0 + x1) / 2
    made.append(f'<text class="q m" x="{middle:g}" y="{BOTTOM + 18}">{escape(across)}</text>')
    return [*made, f'<text class="q" x="{x0 - 40:g}" y="{TOP - 10}">{escape(up)}</text>']


def _limit(trade: Panel, limit: float) -> list[str]:
    x = trade.at(limit, 0)[0]
    return [
        f'<rect x="{x:g}" y="{TOP}" width="{trade.right - x:g}" height="{BOTTOM - TOP}" '
        'fill="var(--beyond)"/>',
        f'<path class="l" d="M{x:g} {TOP}V{BOTTOM}"/>',
        f'<text x="{x + 6:g}" y="{TOP - 10}">limit {limit:g}</text>',
    ]


def _curves(study: Study, panel: Panel, when: Clock) -> list[str]:
    made = []
    for _, rows in study.reports.dropna(subset=["objective"]).groupby("trial"):
        rows = rows[rows["kind"] == "step"].sort_values("step")
        if len(rows) > 1:
            start, end = when(rows["seq"].min()), when(rows["seq"].max())
            path = panel.line(list(zip(rows["step"], rows["objective"], strict=True)))
            timing = f"animation-delay:{start}s;animation-duration:{max(end - start, 0.1):.2f}s"
            made.append(f'<path class="c" pathLength="1" style="{timing}" d="{path}"/>')
    return made


def _points(checked: pd.DataFrame, curves: Panel, trade: Panel, when: Clock) -> list[str]:
    made = []
    for row in checked.itertuples():
        style = f'style="animation-delay:{when(row.seq)}s"'
        for x, y in (curves.at(row.step, row.objective), trade.at(row.value, row.objective)):
            if row.keeps:
                made.append(f'<circle class="p v" {style} cx="{x:g}" cy="{y:g}" r="2.6"/>')
            else:
                made.append(
                    f'<path class="p i" {style} d="M{x:g} {y - 3.6:g}l3.6 3.6-3.6 3.6-3.6-3.6z"/>'
                )
    return made


def _frontiers(study: Study, checked: pd.DataFrame, trade: Panel, when: Clock) -> list[str]:
    """The best objective within each value of the constraint, as it was known at some times."""
    made = []
    sign, limit = 1 if study.rising else -1, study.constraint["upper"]
    stages = [when.end * (n + 1) / FRONTIERS for n in range(FRONTIERS)]
    for begin, end in zip(stages, [*stages[1:], math.inf], strict=True):
        known = checked[[when(seq) <= begin for seq in checked["seq"]]]
        points: list[tuple[float, float]] = []
        for row in known[known["keeps"]].sort_values("value").itertuples():
            if not points or sign * row.objective > sign * points[-1][1]:
                if points:
                    points.append((row.value, points[-1][1]))
                points.append((row.value, row.objective))
        if not points:
            continue
        points.append((limit, points[-1][1]))
        last = math.isinf(end)
        timing = f"animation-delay:{begin:.2f}s"
        timing += "" if last else f";animation-duration:{end - begin:.2f}s"
        kind = "f last" if last else "f"
        made.append(f'<path class="{kind}" style="{timing}" d="{trade.line(points)}"/>')
    return made


def _stops(study: Study, panel: Panel, when: Clock) -> list[str]:
    made = []
    stopped = set(study.trials.loc[study.trials["state"] == "stopped", "trial"])
    for trial, rows in study.reports.dropna(subset=["objective"]).groupby("trial"):
        if trial in stopped:
            end = rows.sort_values("seq").iloc[-1]
            x, y = panel.at(end["step"], end["objective"])
            delay = f'style="animation-delay:{when(end["seq"])}s"'
            cross = f"M{x - 3.5:g} {y - 3.5:g}l7 7m0-7l-7 7"
            made.append(f'<path class="p x" {delay} d="{cross}"/>')
    return made


def _found(study: Study) -> tuple[float, float]:
    """Constraint and objective of the answer, as the search measured them."""
    trial, step = (study.about["answer"][key] for key in ("trial", "step"))
    row = study.trials.set_index("trial").loc[trial]
    checks = study.checks[study.checks["constraint"] == study.constraint["name"]]
    checks = checks[(checks["trial"] == trial) & (checks["step"] == step)]
    reports = study.reports[(study.reports["trial"] == trial) & (study.reports["step"] == step)]
    if checks.empty or reports.empty:
        return float(row[f"constraint.{study.constraint['name']}"]), float(row["found_objective"])
    return float(checks["value"].iloc[-1]), float(reports["objective"].iloc[0])


def _answer(study: Study, trade: Panel, when: Clock) -> list[str]:
    x, y = trade.at(*_found(study))
    style = f'style="animation-delay:{when.end + 0.5:.2f}s"'
    word = study.about["status"]
    return [
        f'<g class="p" {style}><circle class="g" cx="{x:g}" cy="{y:g}" r="8"/>'
        f'<text class="e" x="{x - 12:g}" y="{y - 10:g}" font-weight="600">{word}</text></g>'
    ]


def _words(study: Study, name: str, what: str) -> list[str]:
    stopped = int((study.trials["state"] == "stopped").sum())
    checks, reports = study.checks["seq"].nunique(), len(study.reports)
    kept = (
        "all within limits" if len(study.about["constraints"]) > 1 else f"{name} within its limit"
    )
    y = HEIGHT - 16
    return [
        f'<text class="h" x="24" y="32">{len(study.trials)} {what}, '
        f"{stopped} stopped early, {checks} checks in {reports:,} reports</text>",
        f'<circle class="v" cx="30" cy="{y - 4}" r="3.5"/><text class="q" x="42" y="{y}">'
        f"checked, {escape(kept)}</text>",
        f'<path class="i" d="M268 {y - 8.5:g}l4.5 4.5-4.5 4.5-4.5-4.5z"/>'
        f'<text class="q" x="280" y="{y}">checked, beyond it</text>',
        f'<path class="x" d="M426 {y - 8}l7 7m0-7l-7 7"/><text class="q" x="440" y="{y}">'
        "stopped</text>",
        f'<path class="g" d="M520 {y - 4}h22"/><text class="q" x="550" y="{y}">'
        "best known so far</text>",
        f'<circle class="g" cx="708" cy="{y - 4}" r="6"/><text class="q" x="721" y="{y}">'
        "the answer</text>",
    ]


def _alt(study: Study, name: str, limit: float) -> str:
    value, objective = _found(study)
    stopped = int((study.trials["state"] == "stopped").sum())
    return (
        f"A study as it went. Left: {len(study.trials)} learning curves, {stopped} of them stopped "
        f"early. Right: objective against {name} with the limit {limit:g}; the answer, "
        f"{study.about['status']}, has an objective of {objective:.3f} and a {name} of "
        f"{value:.3f}."
    )
