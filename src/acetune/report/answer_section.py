"""The first part of the page: the answer in words, its values, and what came near."""

from __future__ import annotations

from collections.abc import Sequence

from acetune.report.cells import (
    LONGEST,
    Content,
    configuration,
    estimate,
    head_cell,
    limit_words,
    limited,
    number_cell,
    parameter,
    section,
    short,
    table,
    trial_button,
)
from acetune.report.markup import Element, Node, element


def answer(content: Content) -> Element:
    """The answer in words, then its values, its configuration and what came near."""
    found = content["answer"]
    best = found["best"]
    children: list[Node | None] = [
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
    others = [c for c in found["candidates"] if best is None or _place(c) != _place(best)]
    children += [
        _checkpoints("Other candidates", content, others, "status"),
        _checkpoints("Nearest misses", content, found["nearest_misses"]),
    ]
    return section("answer", *[child for child in children if child is not None])


def _place(found: Content) -> tuple[int, int]:
    return found["trial"], found["step"]


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
            number_cell(best["value"], data_value="objective"),
            element("td", "highest" if objective["mode"] == "max" else "lowest"),
        ]
    ]
    margins = _margins(content)
    for measured in best["constraints"]:
        holds = measured["ok"]
        verdict = element("span", "holds" if holds else "broken", class_="good" if holds else "bad")
        limit = limit_words(measured)
        rows.append(
            [
                element("th", short(measured["name"]), scope="row"),
                element(
                    "td",
                    element(
                        "span",
                        estimate(measured["value"], measured["stderr"]),
                        data_value=f"constraint {measured['name']}"[:LONGEST],
                    ),
                    _with_margin(measured, margins[measured["name"]]),
                    class_="number",
                ),
                element("td", element("span", limit, class_="nowrap"), " ", verdict),
            ]
        )
    return element(
        "div",
        element("h3", "Values against limits"),
        table(["", "value", "wanted"], rows, "Values of the answer against their limits"),
    )


def _margins(content: Content) -> dict[str, float]:
    return {c["name"]: c["margin_se"] for c in content["study"]["constraints"]}


def _with_margin(measured: Content, margin_se: float) -> Element | None:
    """What a value counts as where standard errors are kept from the limit."""
    value, stderr = measured["value"], measured["stderr"]
    if not margin_se or not stderr or value is None:
        return None
    margin = margin_se if measured["sense"] == "<=" else -margin_se
    text = f"counts as {estimate(value + margin * stderr, None)} ({margin:+g} s.e.)"
    return element("div", text, class_="quiet-text")


def _configuration(best: Content) -> Element:
    rows = [
        [
            element("th", short(name), scope="row"),
            element("td", parameter(value), class_="number", data_param=short(name)),
        ]
        for name, value in best["params"].items()
    ]
    copy = element(
        "button", "Copy as JSON", type="button", class_="quiet script", data_action="copy"
    )
    return element(
        "div",
        element("div", element("h3", "Configuration"), copy, class_="title-row"),
        table(["parameter", "value"], rows, "Parameters of the answer")
        if rows
        else element("p", "It has no parameters."),
        element(
            "p",
            f"Trial {best['trial']}, step {best['step']}. ",
            trial_button(best["trial"], f"How trial {best['trial']} went"),
            class_="quiet-text",
        ),
    )


def _trust(found: Content, best: Content) -> Element:
    model, trust = best["model"], found["trust"]
    sentence = trust[:1].upper() + trust[1:] + ("" if trust.endswith(".") else ".")
    return element(
        "dl",
        element("dt", "Trust"),
        element("dd", short(sentence, 2000)),
        element("dt", "Model"),
        element("dd", element("code", model))
        if model
        else element("dd", "no model was kept; train these parameters again to this step"),
        class_="facts",
    )


def _checkpoints(
    title: str, content: Content, found: Sequence[Content], *more: str
) -> Element | None:
    if not found:
        return None
    limits = content["study"]["constraints"]
    margins = _margins(content)
    heads = [limited(limit["name"], limit) for limit in limits]
    objective = short(content["study"]["objective"]["name"])
    columns: list[Node] = [
        "trial",
        "step",
        objective,
        *heads,
        head_cell("configuration", "rare"),
        *more,
    ]
    rows = []
    for one in found:
        measured = {c["name"]: c for c in one["constraints"]}
        rows.append(
            [
                element("th", trial_button(one["trial"]), scope="row"),
                element("td", str(one["step"]), class_="number"),
                number_cell(one["value"]),
                *[_measured(measured[c["name"]], margins[c["name"]]) for c in limits],
                element("td", configuration(one["params"]), class_="wide rare"),
                *[element("td", str(one[name])) for name in more],
            ]
        )
    return element("div", element("h3", title), table(columns, rows, title))


def _measured(measured: Content, margin_se: float) -> Element:
    return element(
        "td",
        element(
            "span",
            estimate(measured["value"], measured["stderr"]),
            class_=None if measured["ok"] else "bad",
        ),
        None if measured["ok"] else _with_margin(measured, margin_se),
        class_="number",
    )
