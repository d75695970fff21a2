"""The parts of the page that are words and tables, made from the content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acetune.report.markup import Element, Node, element

_LONGEST = 400  # characters of one value; what is longer is cut, and said to be
_FIRST_TRIALS = 50  # rows that a reader without JavaScript sees

Content = Mapping[str, Any]


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


# -- the head ------------------------------------------------------------------------------------


def lead(content: Content) -> Element:
    """What was asked of the study, in one line."""
    study = content["study"]
    verb = "maximise" if study["objective"]["mode"] == "max" else "minimise"
    words = [f"{verb} {short(study['objective']['name'])}"]
    words += [short(constraint["text"]) for constraint in study["constraints"]]
    state = "running" if study["running"] else None
    return element(
        "p",
        element("span", " · ".join(words)),
        element("span", state, class_="badge badge-live") if state else None,
        id="lead",
        class_="lead",
    )


# -- the answer ----------------------------------------------------------------------------------


def answer(content: Content) -> Element:
    """The answer in words, then its values, its configuration and what came near."""
    found = content["answer"]
    best = found["best"]
    children: list[Node] = [
        element(
            "div",
            element("h2", "Answer", id="answer-title"),
            _verdict(found),
            class_="title-row",
        ),
        element("p", short(found["words"], 2000), class_="words"),
    ]
    if best is not None:
        left = element("div", _values(content, best), _trust(found, best))
        children.append(element("div", left, _configuration(best), class_="two-columns"))
    children += [
        _checkpoints("Other candidates", content, _others(found["candidates"], best), "status"),
        _checkpoints("Nearest misses", content, found["nearest_misses"]),
    ]
    return _section("answer", *[child for child in children if child != ""])


def _verdict(found: Content) -> Element:
    best = found["best"]
    if best is None:
        return element("span", "none feasible", class_="badge badge-bad")
    words = {
        "confirmed": ("confirmed on fresh data", "badge-good"),
        "failed": ("broke a limit on fresh data", "badge-bad"),
    }
    text, kind = words.get(best["status"], ("feasible, unconfirmed", "badge-quiet"))
    return element("span", text, class_=f"badge {kind}")


def _values(content: Content, best: Content) -> Element:
    objective = content["study"]["objective"]
    rows = [
        [
            element("th", short(objective["name"]), scope="row"),
            _number_cell(best["value"], data_value="objective"),
            element("td", "highest" if objective["mode"] == "max" else "lowest"),
        ]
    ]
    margins = {c["name"]: c["margin_se"] for c in content["study"]["constraints"]}
    for constraint in best["constraints"]:
        limit = f"{constraint['sense']} {number(constraint['limit'])}"
        margin = margins.get(constraint["name"])
        holds = constraint["ok"]
        rows.append(
            [
                element("th", short(constraint["name"]), scope="row"),
                element(
                    "td",
                    _estimate(constraint["value"], constraint["stderr"]),
                    class_="number",
                    data_value=f"constraint {constraint['name']}"[:_LONGEST],
                ),
                element(
                    "td",
                    element("span", limit, class_="nowrap"),
                    " ",
                    element(
                        "span", "holds" if holds else "broken", class_="good" if holds else "bad"
                    ),
                    element("div", f"kept {margin:g} s.e. away from it", class_="quiet-text")
                    if margin
                    else None,
                ),
            ]
        )
    return element(
        "div",
        element("h3", "Values against limits"),
        _plain_table(["", "value", "wanted"], rows, "Values of the answer against their limits"),
    )


def _configuration(best: Content) -> Element:
    rows = [
        [
            element("th", short(name), scope="row"),
            element("td", _parameter(value), class_="number", data_param=short(name)),
        ]
        for name, value in best["params"].items()
    ]
    where = f"Trial {best['trial']}, step {best['step']}"
    return element(
        "div",
        element(
            "div",
            element("h3", "Configuration"),
            element(
                "button", "Copy as JSON", type="button", class_="quiet script", data_action="copy"
            ),
            class_="title-row",
        ),
        _plain_table(["parameter", "value"], rows, "Parameters of the answer")
        if rows
        else element("p", "It has no parameters."),
        element(
            "p",
            where,
            ". ",
            element(
                "button",
                f"How trial {best['trial']} went",
                type="button",
                class_="link script",
                data_action="trial",
                data_trial=str(best["trial"]),
            ),
            class_="quiet-text",
        ),
    )


def _trust(found: Content, best: Content) -> Element:
    model = best["model"]
    return element(
        "dl",
        element("dt", "Trust"),
        element("dd", short(_sentence(found["trust"]), 2000)),
        element("dt", "Model"),
        element("dd", element("code", model))
        if model
        else element("dd", "no model was kept; train these parameters again to this step"),
        class_="facts",
    )


def _others(candidates: Sequence[Content], best: Content | None) -> list[Content]:
    def place(found: Content) -> tuple[int, int]:
        return found["trial"], found["step"]

    return [c for c in candidates if best is None or place(c) != place(best)]


def _checkpoints(title: str, content: Content, found: Sequence[Content], *more: str) -> Node:
    if not found:
        return ""
    study = content["study"]
    names = [constraint["name"] for constraint in study["constraints"]]
    columns = ["trial", "step", study["objective"]["name"], *names, "configuration", *more]
    rows = []
    for one in found:
        measured = {c["name"]: c for c in one["constraints"]}
        params = ", ".join(f"{name} = {_parameter(value)}" for name, value in one["params"].items())
        rows.append(
            [
                element("th", _trial_button(one["trial"]), scope="row"),
                element("td", str(one["step"]), class_="number"),
                _number_cell(one["value"]),
                *[_measured(measured.get(name)) for name in names],
                element("td", short(params), class_="wide"),
                *[element("td", str(one[name])) for name in more],
            ]
        )
    return element(
        "div", element("h3", title), _plain_table([short(c) for c in columns], rows, title)
    )


def _measured(constraint: Content | None) -> Element:
    if constraint is None or constraint["value"] is None:
        return element("td", "failed", class_="number bad")
    kind = "number" if constraint["ok"] else "number bad"
    return element("td", _estimate(constraint["value"], constraint["stderr"]), class_=kind)


# -- the rest ------------------------------------------------------------------------------------


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
    return _section(
        "numbers", element("h2", "Numbers", id="numbers-title"), element("dl", *items, class_="big")
    )


def running(content: Content) -> Element:
    """The trials that run now; hidden when there is none."""
    columns, rows = _trial_columns(content)
    state = columns.index("state")
    now = [row for row in rows if row[state] == "running"]
    if not now or not content["study"]["running"]:
        return element("section", id="running", hidden="")
    wanted = ("trial", "steps", "total_steps", "stratum", "best_objective")
    cells = [[_cell(name, row[columns.index(name)]) for name in wanted] for row in now]
    table = _plain_table([_label(name) for name in wanted], cells, "Trials that run now")
    return _section("running", element("h2", "Running now", id="running-title"), table)


def confirmations(content: Content) -> Element:
    """Every use of the data that the search never saw."""
    uses = content["confirmations"]
    title = element("h2", "Confirmation on fresh data", id="confirmations-title")
    if not uses:
        text = (
            "Nothing was confirmed. Give tune(confirm=...) a function that judges the kept model "
            "on data the search never saw: a limit that binds is often broken there."
        )
        return _section("confirmations", title, element("p", text))
    limits = {c["name"]: c for c in content["study"]["constraints"]}
    names = list(dict.fromkeys(m["name"] for use in uses for m in use["metrics"]))
    rows = []
    for use in uses:
        metrics = {m["name"]: m for m in use["metrics"]}
        kind = {"confirmed": "good", "failed": "bad"}.get(use["status"])
        rows.append(
            [
                element("td", str(use["use"]), class_="number"),
                element("th", _trial_button(use["trial"]), scope="row"),
                element("td", str(use["step"]), class_="number"),
                element("td", element("span", use["status"], class_=kind)),
                *[
                    element(
                        "td",
                        _estimate(metrics[name]["value"], metrics[name]["stderr"])
                        if name in metrics
                        else "",
                        class_="number",
                    )
                    for name in names
                ],
                element("td", short(use["error"] or ""), class_="wide"),
            ]
        )
    heads = [
        short(name) + (f" ({limits[name]['sense']} {number(limits[name]['limit'])})")
        if name in limits
        else short(name)
        for name in names
    ]
    columns = ["use", "trial", "step", "status", *heads, "error"]
    if not any(use["error"] for use in uses):
        columns.pop()
        rows = [row[:-1] for row in rows]
    note = "Each use makes the fresh data a little less fresh. The table counts them."
    table = _plain_table(columns, rows, "Uses of the confirmation data")
    return _section("confirmations", title, element("p", note), table)


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
        [element("th", short(name), scope="row"), element("td", _value(value), class_="wide")]
        for name, value in facts
        if value is not None
    ]
    return _section(
        "settings",
        element("h2", "Settings and versions", id="settings-title"),
        _plain_table(["setting", "value"], rows, "Settings and versions"),
    )


def picture(figure: Content) -> Element:
    """A figure: its place, its caption, and its numbers as a table."""
    name = figure["id"]
    table = figure.get("table")
    details: Node | None = None
    if table and table["rows"]:
        cells = [[_cell("", value) for value in row] for row in table["rows"]]
        details = element(
            "details",
            element("summary", "The numbers as a table"),
            _plain_table([short(str(c)) for c in table["columns"]], cells, figure["title"]),
            id=f"table-{name}",
        )
    return element(
        "figure",
        element("h3", short(figure["title"]), id=f"title-{name}"),
        element(
            "div",
            element("p", "Drawn by JavaScript; its numbers are in the table.", class_="quiet-text"),
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


def first_trials(content: Content) -> Element:
    """Some rows of the table of trials, for readers without JavaScript."""
    columns, rows = _trial_columns(content)
    cells = [
        [_cell("trial", row[0]), *[_cell("", value) for value in row[1:]]]
        for row in rows[:_FIRST_TRIALS]
    ]
    left = len(rows) - len(cells)
    note = f"The first {len(cells)} of {len(rows)}; the others need JavaScript." if left else ""
    table = _plain_table([_label(name) for name in columns], cells, "Trials")
    return element("div", table, element("p", note) if note else None)


# -- small things --------------------------------------------------------------------------------


def _trial_columns(content: Content) -> tuple[list[str], list[list[Any]]]:
    return content["trials"]["columns"], content["trials"]["rows"]


def _section(name: str, *children: Node) -> Element:
    return element("section", *children, id=name, aria_labelledby=f"{name}-title")


def _plain_table(columns: Sequence[str], rows: Iterable[Sequence[Node]], label: str) -> Element:
    head = [element("th", name, scope="col") if name else element("td") for name in columns]
    table = element(
        "table",
        element("thead", element("tr", *head)),
        element("tbody", *[element("tr", *row) for row in rows]),
    )
    # a wide table scrolls in its frame, by keyboard too
    return element(
        "div", table, class_="frame", tabindex="0", role="region", aria_label=short(label)
    )


def _trial_button(trial: int) -> Element:
    return element(
        "button",
        str(trial),
        type="button",
        class_="link",
        data_action="trial",
        data_trial=str(trial),
        aria_label=f"Open trial {trial}",
    )


def _cell(name: str, value: Any) -> Element:
    if name == "trial" and isinstance(value, int):
        return element("th", _trial_button(value), scope="row")
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return element("td", _value(value), class_="number" if numeric else None)


def _number_cell(value: float | None, **attributes: str) -> Element:
    return element("td", number(value), class_="number", **attributes)


def _label(name: str) -> str:
    return short(name.replace("_", " "))


def number(value: float | None) -> str:
    """A number as the page shows it: five significant digits."""
    return "unknown" if value is None else f"{value:.5g}"


def _estimate(value: float | None, stderr: float | None) -> str:
    if value is None:
        return "failed"
    return f"{value:.5g}" + (f" ± {stderr:.2g}" if stderr else "")


def _value(value: Any) -> str:
    return "" if value is None else _parameter(value)


def _parameter(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else short(str(value))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def short(text: str, longest: int = _LONGEST) -> str:
    """Text of a length that a page can show."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]} ... ({len(text)} characters)"
