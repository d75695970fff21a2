"""The parts of the page that are words and tables, made from the content."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from acetune.core.formatting import duration, number
from acetune.report._answer_section import answer
from acetune.report._markup import (
    Content,
    Element,
    Node,
    cell,
    configuration,
    element,
    estimate,
    head_cell,
    label,
    limited,
    number_cell,
    parameter,
    row_head,
    section,
    short,
    table,
    trial_button,
)

_FIRST = 50  # trials that a reader without JavaScript sees


def sections(content: Content) -> dict[str, Element]:
    """Every part by the id of the element it is."""
    parts = {
        "lead": lead(content),
        "answer": answer(content),
        "numbers": numbers(content),
        "running": running(content),
        "confirmations": confirmations(content),
        "settings": settings(content),
    }
    parts.update({f"figure-{figure['id']}": picture(figure) for figure in content["figures"]})
    return parts


def lead(content: Content) -> Element:
    """What was asked of the study, in one line."""
    study = content["study"]
    verb = "maximise" if study["objective"]["mode"] == "max" else "minimise"
    words = [f"{verb} {short(study['objective']['name'])}"]
    words += [short(c["text"].replace("<=", "≤").replace(">=", "≥")) for c in study["constraints"]]
    live = element("span", "running", class_="badge badge-live") if study["running"] else None
    begun = datetime.fromisoformat(study["created"])
    ran = "has run" if study["running"] else "ran"
    return element(
        "div",
        element("p", element("span", " · ".join(words)), live, class_="lead"),
        element(
            "p",
            f"Begun {begun.day} {begun:%B %Y, %H:%M} UTC; {ran} for {duration(study['elapsed_s'])}",
            class_="quiet-text begun",
        ),
        id="lead",
    )


def numbers(content: Content) -> Element:
    """The few numbers people look for."""
    items = [
        element(
            "div",
            element("dt", short(one["label"])),
            element("dd", short(one["value"]), class_="figure-number"),
            element("dd", short(one["note"]), class_="quiet-text") if one.get("note") else None,
        )
        for one in content["numbers"]
    ]
    title = element("h2", "Numbers", id="numbers-title")
    return section("numbers", title, element("dl", *items, class_="big"))


def confirmations(content: Content) -> Element:
    """Every use of the data that the search never saw."""
    uses = content["confirmations"]
    title = element("h2", "Confirmation on fresh data", id="confirmations-title")
    if not uses:
        text = (
            "Nothing was confirmed. Give tune(confirm=...) a function that judges the kept model "
            "on data the search never saw: a limit that binds is often broken there."
        )
        return section("confirmations", title, element("p", text))
    limits = {c["name"]: c for c in content["study"]["constraints"]}
    names = list(dict.fromkeys(m["name"] for use in uses for m in use["metrics"]))
    rows = []
    for use in uses:
        metrics = {m["name"]: estimate(m["value"], m["stderr"]) for m in use["metrics"]}
        kind = {"certified": "good", "broken": "bad"}.get(use["status"])
        bounds = {b["name"]: b["value"] for b in use["bounds"] if b["value"] is not None}
        for name, bound in bounds.items():
            side = "≤" if limits[name]["sense"] == "<=" else "≥"
            metrics[name] = f"{metrics[name]}, {side} {number(bound, 4)}"
        rows.append(
            [
                number_cell(str(use["look"])),
                row_head(trial_button(use["trial"])),
                number_cell(str(use["step"])),
                element("td", element("span", use["status"], class_=kind)),
                *[number_cell(metrics.get(name, "")) for name in names],
                element("td", short(use["error"] or ""), class_="wide"),
            ]
        )
    heads = [limited(name, limits.get(name)) for name in names]
    columns = ["look", "trial", "step", "status", *heads, "error"]
    if not any(use["error"] for use in uses):
        columns.pop()
        rows = [row[:-1] for row in rows]
    note = element(
        "p",
        "What a look tests, and in which order, is fixed before it. A bound (≤ or ≥) is what the "
        "true value stays within, but for the error probability of the look.",
    )
    shown = table(columns, rows, "Uses of the confirmation data")
    return section("confirmations", title, note, shown)


def settings(content: Content) -> Element:
    """How the study was set, and the versions it ran with."""
    study = content["study"]
    facts = [
        ("study file", study["path"]),
        ("policy", study["policy"]),
        ("limits on the configuration", ", ".join(study["config_limits"]) or None),
        ("searcher", study["searcher"]),
        ("engine", study["engine"]),
        ("workers", study["workers"]),
        ("begun", study["created"]),
        ("ended", "still running" if study["running"] else study["ended"]),
        *sorted((f"version of {name}", value) for name, value in study["versions"].items()),
    ]
    rows = [
        [row_head(short(name)), element("td", parameter(value), class_="wide")]
        for name, value in facts
        if value is not None
    ]
    title = "Settings and versions"
    shown = table(["setting", "value"], rows, title)
    return section("settings", element("h2", title, id="settings-title"), shown)


def running(content: Content) -> Element:
    """The trials that run now; hidden when there is none."""
    columns, rows = content["trials"]["columns"], content["trials"]["rows"]
    state = columns.index("state")
    now = _named(columns, [row for row in rows if row[state] == "running"])
    answer_trial = content["trials"]["answer"]
    if not now or not content["study"]["running"]:
        return element("section", id="running", hidden="")
    wanted = ("trial", "steps", "stratum", "best_objective")
    cells = [[_cell(row, name, answer_trial) for name in wanted] for row in now]
    found = table([label(name) for name in wanted], cells, "Trials that run now")
    return section("running", element("h2", "Running now", id="running-title"), found)


def first_trials(content: Content) -> Element:
    """Some rows of the table of trials, for readers without JavaScript."""
    of = len(content["trials"]["rows"])
    rows = _named(content["trials"]["columns"], content["trials"]["rows"][:_FIRST])
    shown = [column["name"] for column in content["trials"]["shown"]]
    cells = [
        [
            *[_cell(row, name, content["trials"]["answer"]) for name in shown],
            element("td", configuration(row["params"]), class_="wide rare"),
        ]
        for row in rows
    ]
    columns: list[Node] = [*map(label, shown), head_cell("configuration", "rare")]
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


def _cell(row: dict[str, Any], name: str, answer_trial: int | None) -> Element:
    value = row[name]
    if name == "trial":
        return row_head(trial_button(value))
    if name == "state":
        held = element("div", "holds the answer") if row["trial"] == answer_trial else None
        return element("td", value, held, element("div", row["reason"], class_="quiet-text"))
    if name == "steps":
        of = "" if row["total_steps"] is None else f" of {row['total_steps']}"
        return number_cell(f"{value}{of}")
    if isinstance(value, float):
        return number_cell(value)
    return cell(short(value) if isinstance(value, str) else value)


def picture(figure: Content, until_drawn: Element | None = None) -> Element:
    """A figure: its place, its caption, and its numbers as a table.

    ``until_drawn`` is in its place until plotly.js has drawn it there.
    """
    name = figure["id"]
    shown = figure.get("table")
    details = None
    if shown and shown["rows"]:
        cells = [[cell(value) for value in row] for row in shown["rows"]]
        details = element(
            "details",
            element("summary", "The numbers as a table"),
            table([short(str(c)) for c in shown["columns"]], cells, figure["title"]),
            id=f"table-{name}",
        )
    waiting = "Drawn by JavaScript; its numbers are in the table."
    place = element(
        "div",
        until_drawn or element("p", waiting, class_="quiet-text"),
        id=f"plot-{name}",
        class_="plot",
        role="img",
        aria_label=short(figure["alt"], 1000),
        data_keep="",
    )
    title = element("h3", short(figure["title"]), id=f"title-{name}")
    caption = element("figcaption", short(figure["caption"], 2000))
    return element("figure", title, place, caption, details, id=f"figure-{name}")
