"""The parts of the page that are words and tables, made from the content."""

from __future__ import annotations

from datetime import datetime

from acetune.report.answer_section import answer
from acetune.report.cells import (
    Content,
    cell,
    estimate,
    limited,
    parameter,
    section,
    short,
    table,
    trial_button,
)
from acetune.report.markup import Element, Node, element
from acetune.report.trials_section import running
from acetune.study.summary import duration


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
    words += [
        short(constraint["text"].replace("<=", "≤").replace(">=", "≥"))
        for constraint in study["constraints"]
    ]
    state = "running" if study["running"] else None
    begun = datetime.fromisoformat(study["created"])
    ran = "has run" if study["running"] else "ran"
    return element(
        "div",
        element(
            "p",
            element("span", " · ".join(words)),
            element("span", state, class_="badge badge-live") if state else None,
            class_="lead",
        ),
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
    return section(
        "numbers", element("h2", "Numbers", id="numbers-title"), element("dl", *items, class_="big")
    )


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
        metrics = {m["name"]: m for m in use["metrics"]}
        kind = {"confirmed": "good", "failed": "bad"}.get(use["status"])
        rows.append(
            [
                element("td", str(use["use"]), class_="number"),
                element("th", trial_button(use["trial"]), scope="row"),
                element("td", str(use["step"]), class_="number"),
                element("td", element("span", use["status"], class_=kind)),
                *[
                    element(
                        "td",
                        estimate(metrics[name]["value"], metrics[name]["stderr"])
                        if name in metrics
                        else "",
                        class_="number",
                    )
                    for name in names
                ],
                element("td", short(use["error"] or ""), class_="wide"),
            ]
        )
    heads = [limited(name, limits.get(name)) for name in names]
    columns = ["use", "trial", "step", "status", *heads, "error"]
    if not any(use["error"] for use in uses):
        columns.pop()
        rows = [row[:-1] for row in rows]
    note = "Each use makes the fresh data a little less fresh. The table counts them."
    return section(
        "confirmations",
        title,
        element("p", note),
        table(columns, rows, "Uses of the confirmation data"),
    )


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
        [element("th", short(name), scope="row"), element("td", parameter(value), class_="wide")]
        for name, value in facts
        if value is not None
    ]
    return section(
        "settings",
        element("h2", "Settings and versions", id="settings-title"),
        table(["setting", "value"], rows, "Settings and versions"),
    )


def picture(figure: Content, until_drawn: Element | None = None) -> Element:
    """A figure: its place, its caption, and its numbers as a table.

    ``until_drawn`` is in its place until plotly.js has drawn it there.
    """
    name = figure["id"]
    shown = figure.get("table")
    details: Node | None = None
    if shown and shown["rows"]:
        cells = [[cell(value) for value in row] for row in shown["rows"]]
        details = element(
            "details",
            element("summary", "The numbers as a table"),
            table([short(str(c)) for c in shown["columns"]], cells, figure["title"]),
            id=f"table-{name}",
        )
    return element(
        "figure",
        element("h3", short(figure["title"]), id=f"title-{name}"),
        element(
            "div",
            until_drawn
            or element(
                "p", "Drawn by JavaScript; its numbers are in the table.", class_="quiet-text"
            ),
            id=f"plot-{name}",
            class_="plot",
            role="img",
            aria_label=short(figure["alt"], 1000),
            data_keep="",
        ),
        element("figcaption", short(figure["caption"], 2000)),
        details,
        id=f"figure-{name}",
    )
