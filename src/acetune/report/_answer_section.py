"""The first part of the page: its headline, the answer's values, and what came near."""

from __future__ import annotations

import math
from collections.abc import Sequence

from acetune.core import formatting as words
from acetune.core.formatting import count, number
from acetune.core.goals import Constraint, Goals
from acetune.report._markup import (
    LONGEST,
    Content,
    Element,
    Node,
    configuration,
    element,
    estimate,
    head_cell,
    limited,
    number_cell,
    parameter,
    row_head,
    section,
    short,
    table,
    titled_table,
    trial_button,
)
from acetune.study.claims import no_recommendation
from acetune.study.findings import FoundCheckpoint, broken_limits, checkpoint_key
from acetune.study.result import StudyResult
from acetune.study.summary import (
    beware,
    describe_checkpoint,
    nothing_feasible,
    what_changed,
)


def page_headline(
    result: StudyResult,
    of_all: tuple[FoundCheckpoint, str] | None,
    missing: int,
    *,
    running: bool = False,
) -> str:
    """The answer in words.

    ``of_all`` is the best objective that was reported, with its stratum, and ``missing`` how many
    checkpoints are better than the answer and were never checked.
    """
    best = result.best
    if result.rejected is not None:
        return sentence(no_recommendation(result))
    if best is None:
        return _nothing(result, running)
    parts = [_use(result.goals, best, running), _limits(result.goals, best, running)]
    if result.goals.constraints and of_all is not None:
        parts.append(_cost_of_limits(result, best, *of_all))
        if missing:
            parts.append(
                f"{count(missing, 'better checkpoint')} {'was' if missing == 1 else 'were'} "
                "never checked."
            )
    parts += map(sentence, beware(result.goals, best))
    parts += map(sentence, what_changed(result))
    return " ".join(filter(None, parts))


def _nothing(result: StudyResult, running: bool) -> str:
    if not result.ledger.reports:
        if running:
            return "Nothing has been reported yet."
        if result.ended is None:  # its driver was killed
            return "Nothing was reported."
        return sentence(nothing_feasible(result).text)
    why = nothing_feasible(result)
    text = sentence(why.text)
    if result.nearest_miss is not None and not why.tells_nearest:
        text += f" Nearest came {describe_checkpoint(result.goals, result.nearest_miss)}."
    return text


def _use(goals: Goals, best: FoundCheckpoint, running: bool) -> str:
    """Which checkpoint, and what to expect of it."""
    name, value = goals.objective.name, number(best.value)
    fresh = None if best.confirmation is None else best.confirmation.values.get(name)
    if fresh is not None:
        value = f"{number(fresh.value)} on fresh data ({value} where it was chosen)"
    of = "" if best.total_steps in (None, best.step) else f" of {best.total_steps}"
    use = "The best so far is" if running else "Use"
    return f"{use} trial {best.trial} at step {best.step}{of}: {name} {value}."


def _limits(goals: Goals, best: FoundCheckpoint, running: bool) -> str:
    """What its constraints are, and where they hold."""
    held = [
        f"{limit.name} {number(best.constraints[limit.name].value, 4)} "
        f"(limit {words.limit(limit.sense, limit.limit, in_print=True)})"
        for limit in goals.constraints
        if limit.name in best.constraints
    ]
    if not held:
        return ""
    holds = "hold" if len(held) > 1 else "holds"
    where = "" if running else " in the search; nothing was measured on fresh data"
    if best.status in ("certified", "holds"):
        where = ", also on fresh data"
    if best.status == "certified":
        where += ": certified"
    elif best.status == "holds":
        where += ", but not certified"
    listed = " and ".join(filter(None, [", ".join(held[:-1]), held[-1]]))
    return f"{listed} {holds}{where}."


def _cost_of_limits(
    result: StudyResult, best: FoundCheckpoint, other: FoundCheckpoint, stratum: str
) -> str:
    """What the best of all has that the answer lacks, and why it is not the answer."""
    goals, name = result.goals, result.goals.objective.name
    if checkpoint_key(other) == checkpoint_key(best) or other.value == best.value:
        return f"No other that was reported has a better {name}."
    gap = goals.objective.loss(best.value) - goals.objective.loss(other.value)
    if not (gap > 0 and math.isfinite(gap)):
        return ""
    which = f"the best of all, {name} {number(other.value)} (trial {other.trial}, "
    which += f"step {other.step}),"
    if stratum == "invalid":
        if goals.keeps(other.constraints):  # what it misses is the search's own aim
            return f"{sentence(which)[:-1]} is nearer to a limit than the search aimed for."
        broken = [_beyond(limit, other) for limit in broken_limits(goals, other)]
        why = f"breaks {' and '.join(broken)}" if broken else "failed a check"
        return f"The limits cost {number(gap, 2)} {name}: {which} {why}."
    if stratum == "unchecked":
        return sentence(f"{which} was never checked")
    failed = {checkpoint_key(found) for found in result.candidates if found.status == "broken"}
    why = "broke a limit on fresh data" if checkpoint_key(other) in failed else "qualifies too"
    return sentence(f"{which} {why}")


def _beyond(limit: Constraint, found: FoundCheckpoint) -> str:
    """The constraint that is broken, and by how much."""
    measured = found.constraints[limit.name]
    margin = included = ""
    if limit.without_margin().holds(measured):
        margin = " with its margin"
    elif limit.margin and measured.stderr:
        included = " with its margin"
    return (
        f"{limit.name} ({number(measured.value, 4)}{margin}, "
        f"{number(limit.excess(measured), 2)} beyond its limit{included})"
    )


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop.

    >>> sentence("none yet"), sentence("is the limit right?")
    ('None yet.', 'Is the limit right?')
    """
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"


def in_print(text: str) -> str:
    """Limits with the signs of print, for a page.

    >>> in_print("gap 0.12 (limit <= 0.1; 0.09 where it was chosen)")
    'gap 0.12 (limit ≤ 0.1; 0.09 where it was chosen)'
    """
    return text.replace(" <= ", " ≤ ").replace(" >= ", " ≥ ")


def answer(content: Content) -> Element:
    """The answer in words, then its values, its configuration and what came near."""
    found = content["answer"]
    best = found["best"]
    details = next_steps = None
    if found["next"]:
        next_steps = element("p", element("strong", "What next: "), short(found["next"], 2000))
    if best is not None:
        left = element("div", _values(content, best), _trust(found, best))
        details = element("div", left, _configuration(found, best), class_="two-columns")
    elif found["rejected"] is not None:  # neither its parameters nor its model are offered
        values = _values(content, found["rejected"], "The best that was rejected, and its limits")
        details = element("div", values, element("dl", *_said(found), class_="facts"))
    others = [one for one in found["candidates"] if one != best]
    titles = ("Other candidates", _better_title(found["nearest_misses"]))
    if best is None:
        titles = ("Candidates", "Nearest misses")
    title = element("h2", "Answer", id="answer-title")
    verdict = _verdict(found, running=content["study"]["running"])
    return section(
        "answer",
        element("div", title, verdict, class_="title-row"),
        element("p", short(found["words"], 2000), class_="words"),
        next_steps,
        details,
        _checkpoints(titles[0], content, others, "status"),
        _checkpoints(titles[1], content, found["nearest_misses"]),
    )


def _better_title(misses: Sequence[Content]) -> str:
    """What stands between the answer and those that are better: a limit, or the aim of the search.

    >>> close, over = {"constraints": [{"ok": True}]}, {"constraints": [{"ok": False}]}
    >>> _better_title([close]), _better_title([close, over])
    ('Better, but too close to a limit', 'Better, but too close to a limit or over it')
    """
    close = {all(limit["ok"] for limit in one["constraints"]) for one in misses}
    if close == {True}:
        return "Better, but too close to a limit"
    return "Better, but " + ("too close to a limit or over it" if True in close else "over a limit")


def _verdict(found: Content, *, running: bool) -> Element:
    best, kind, text = found["best"], "quiet", "feasible, unconfirmed"
    if found["outcome"] == "rejected":
        kind, text = "bad", "broken: a limit is broken on fresh data"
    elif best is None and running:
        text = "none feasible yet"
    elif best is None:
        kind, text = "bad", "none feasible"
    elif best["status"] == "certified":
        nearly = " (approximate)" if found["approximate"] else ""
        kind, text = "good", f"certified at level {100 - found['confidence']:.4g} %{nearly}"
    elif best["status"] == "holds":
        text = "holds on fresh data, not certified"
    return element("span", text, class_=f"badge badge-{kind}")


def _values(content: Content, best: Content, title: str = "Values against limits") -> Element:
    """What was wanted, the values in the search, and on fresh data where it was asked."""
    objective, fresh = content["study"]["objective"], best["fresh"]
    wanted = "highest" if objective["mode"] == "max" else "lowest"
    row = [_wanted(objective["name"], wanted), number_cell(best["value"], data_value="objective")]
    if fresh is not None:
        row.append(_on_fresh(fresh["objective"], "objective"))
    rows = [row]
    for place, measured in enumerate(best["constraints"]):
        name = f"constraint {measured['name']}"[:LONGEST]
        again = None if fresh is None else fresh["constraints"][place]
        shown = estimate(measured["value"], measured["stderr"])
        limit = words.limit(measured["sense"], measured["limit"], in_print=True)
        row = [
            _wanted(measured["name"], limit),
            element(
                "td",
                element("span", shown, data_value=name),
                " ",
                _holds(measured) if again is None else None,  # fresh data has the last word
                _with_margin(measured),
            ),
        ]
        if fresh is not None:
            row.append(_on_fresh(again, name))
        rows.append(row)
    columns = ["wanted", "in the search", "on fresh data"]
    if fresh is None:
        columns = ["wanted", "value"]
    return titled_table(title, columns, rows)


def _wanted(name: str, what: str) -> Element:
    """A metric and what is wanted of it."""
    return row_head(f"{short(name)} ", element("span", what, class_="nowrap quiet-text"))


def _holds(measured: Content) -> Element:
    text, kind = ("holds", "good") if measured["ok"] else ("broken", "bad")
    return element("span", text, class_=kind)


def _on_fresh(measured: Content | None, name: str) -> Element:
    """A value on fresh data, and whether it keeps its limit."""
    if measured is None:
        return element("td", "not measured", class_="quiet-text")
    shown = element("span", estimate(measured["value"], measured["stderr"]), data_fresh=name)
    return element("td", shown, " ", _holds(measured) if "ok" in measured else None)


def _with_margin(measured: Content) -> Element | None:
    """What a value counts as where standard errors are kept from the limit, as it was judged."""
    value, stderr, margin = measured["value"], measured["stderr"], measured["margin_se"]
    if not margin or not stderr or value is None:
        return None
    sign = 1.0 if measured["sense"] == "<=" else -1.0
    if measured["aim"]:  # of the search, and no condition
        within = sign * (measured["limit"] - value) / stderr
        side = "within" if within >= 0 else "beyond"
        text = f"{abs(within):.3g} s.e. {side} its limit; the search aimed for {margin:.3g} within"
    else:
        counts = estimate(value + sign * margin * stderr, None)
        text = f"counts as {counts} ({sign * margin:+g} s.e.)"
    return element("div", text, class_="quiet-text")


def _configuration(found: Content, best: Content) -> Element:
    rows = [
        [row_head(short(name)), number_cell(parameter(value), data_param=short(name))]
        for name, value in best["params"].items()
    ]
    copy = element(
        "button", "Copy as JSON", type="button", class_="quiet script", data_action="copy"
    )
    shown = element("p", "It has no parameters.")
    if rows:
        shown = table(["parameter", "value"], rows, "Parameters of the answer")
    how = trial_button(best["trial"], f"How trial {best['trial']} went")
    return element(
        "div",
        element("div", element("h3", "Configuration"), copy, class_="title-row"),
        shown,
        element("p", *_when_to_stop(found, best), class_="stop-at"),
        element("p", how, class_="quiet-text"),
    )


def _when_to_stop(found: Content, best: Content) -> list[Node]:
    """At which step the answer lies; where training went on, that these parameters are not all."""
    step, total = best["step"], best["total_steps"]
    if step == total:
        return [f"Step {step}, the last one."]
    of = "" if total is None else f" of {total}"
    said: list[Node] = [element("strong", f"Stop at step {step}{of}"), "."]
    checked, valid = found["later"]["checked"], found["later"]["valid"]
    near = any(limit["aim"] for limit in best["constraints"])  # what is nearer is invalid too
    if checked == 1 and not valid:
        miss = "breaks a limit" + " or comes too close to one" * near
        said.append(f" The later checkpoint of this trial that was checked {miss}.")
    elif checked and not valid:
        miss = "break a limit" + " or come too close to one" * near
        said.append(f" All {checked:,} later checkpoints of this trial that were checked {miss}.")
    elif checked:
        said.append(
            f" Of {checked:,} later checkpoints of this trial that were checked, {valid:,} "
            f"{'qualifies' if valid == 1 else 'qualify'} and none is better."
        )
    return said


def _trust(found: Content, best: Content) -> Element:
    model = best["model"]
    facts = [*_said(found), element("dt", "Model")]
    if model:
        lost = found["instead"]
        said = f" {best['model_fault']}; {lost}" if lost else None
        facts.append(element("dd", element("code", short(model)), said))
        if found["load"]:
            facts += [
                element("dt", "Load the next" if lost else "Load it"),
                element("dd", element("code", short(found["load"]))),
            ]
    else:
        facts.append(element("dd", "no model was kept; train these parameters again to this step"))
    return element("dl", *facts, class_="facts")


def _said(found: Content) -> list[Node]:
    """How far to trust what was found."""
    said: list[Node] = [
        element("dt", "Trust"),
        element("dd", short(sentence(found["trust"]), 2000)),
    ]
    if found["claim"]:
        said += [element("dt", "You may say"), element("dd", short(sentence(found["claim"]), 2000))]
    if found["account"]:
        said += [element("dt", "Looks"), element("dd", short(sentence(found["account"]), 2000))]
    return said


def _checkpoints(
    title: str, content: Content, found: Sequence[Content], *more: str
) -> Element | None:
    if not found:
        return None
    limits = content["study"]["constraints"]
    heads = [limited(limit["name"], limit) for limit in limits]
    objective = short(content["study"]["objective"]["name"])
    params = head_cell("configuration", "rare")
    columns: list[Node] = ["trial", "step", objective, *heads, params, *more]
    rows = []
    for one in found:
        measured = {c["name"]: c for c in one["constraints"]}
        rows.append(
            [
                row_head(trial_button(one["trial"])),
                number_cell(str(one["step"])),
                number_cell(one["value"]),
                *[_measured(measured[c["name"]], one["violation"]) for c in limits],
                element("td", configuration(one["params"]), class_="wide rare"),
                *[element("td", str(one[name])) for name in more],
            ]
        )
    return titled_table(title, columns, rows)


def _measured(measured: Content, violation: float | None) -> Element:
    """A value, and where it breaks its limit what it counts as and by how much it does."""
    value = measured["value"]
    if value is None:
        shown = words.missing_words(violation)
        kind = "bad" if shown == "failed" else "quiet-text"
        return element("td", element("span", shown, class_=kind), class_="number")
    shown = estimate(value, measured["stderr"])
    if measured["ok"]:
        near = _with_margin(measured) if measured["aim"] and violation else None
        return element("td", element("span", shown), near, class_="number")
    return element(
        "td",
        element("span", shown, class_="bad"),
        _with_margin(measured),
        element("div", f"{words.number(measured['excess'], 2)} beyond", class_="quiet-text"),
        class_="number",
    )
