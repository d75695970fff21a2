"""The trials as the page shows them: those that run, and the first of all."""

from __future__ import annotations

from typing import Any

from acetune.report.cells import (
    Content,
    cell,
    configuration,
    head_cell,
    label,
    number_cell,
    section,
    short,
    table,
    trial_button,
)
from acetune.report.markup import Element, Node, element

_FIRST = 50  # rows that a reader without JavaScript sees
_SHOWN = ("stratum", "steps", "best_objective", "best_valid_objective", "least_violation", "checks")


def running(content: Content) -> Element:
    """The trials that run now; hidden when there is none."""
    columns, rows = content["trials"]["columns"], content["trials"]["rows"]
    state = columns.index("state")
    now = _named(columns, [row for row in rows if row[state] == "running"])
    if not now or not content["study"]["running"]:
        return element("section", id="running", hidden="")
    wanted = ("steps", "stratum", "best_objective")
    cells = [[_trial(row), *[_cell(row, name) for name in wanted]] for row in now]
    found = table(["trial", *map(label, wanted)], cells, "Trials that run now")
    return section("running", element("h2", "Running now", id="running-title"), found)


def first_trials(content: Content) -> Element:
    """Some rows of the table of trials, for readers without JavaScript."""
    of = len(content["trials"]["rows"])
    rows = _named(content["trials"]["columns"], content["trials"]["rows"][:_FIRST])
    cells = [
        [
            _trial(row),
            element("td", row["state"], element("div", row["reason"], class_="quiet-text")),
            *[_cell(row, name) for name in _SHOWN],
            element("td", configuration(row["params"]), class_="wide rare"),
        ]
        for row in rows
    ]
    columns: list[Node] = [
        "trial",
        "state",
        *map(label, _SHOWN),
        head_cell("configuration", "rare"),
    ]
    note = f"The first {len(rows)} of {of}; the others need JavaScript."
    more = element("p", note) if of > len(rows) else None
    return element("div", table(columns, cells, "Trials"), more)


def _named(columns: list[str], rows: list[list[Any]]) -> list[dict[str, Any]]:
    """Trials by the names of their columns; parameters, whose names may be the same, apart."""
    own = columns.index("reason") + 1
    found = []
    for row in rows:
        params = {n: v for n, v in zip(columns[own:], row[own:], strict=True) if v is not None}
        found.append({**dict(zip(columns[:own], row[:own], strict=True)), "params": params})
    return found


def _trial(row: dict[str, Any]) -> Element:
    return element("th", trial_button(row["trial"]), scope="row")


def _cell(row: dict[str, Any], name: str) -> Element:
    value = row[name]
    if name == "steps":
        of = "" if row["total_steps"] is None else f" of {row['total_steps']}"
        return element("td", f"{value}{of}", class_="number")
    if isinstance(value, float):
        return number_cell(value)
    return cell(short(value) if isinstance(value, str) else value)
