"""A result in words: what the summary at the end of a study says."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from acetune.core.formatting import (
    count,
    duration,
    estimate,
    harmless,
    missing_words,
    number,
    parameters,
    size,
    timing,
)
from acetune.core.goals import Constraint, Goals
from acetune.core.reason import BUDGET_SPENT, ENOUGH, FAILED
from acetune.study.claims import (
    account_words,
    after_failed_confirmation,
    claim,
    no_recommendation,
    percent,
    towards_a_certificate,
    trust_in_best,
)
from acetune.study.findings import (
    SUSPICIOUS,
    FoundCheckpoint,
    broken_limits,
    chance_of_the_same,
    looks_of_earlier_checks,
)
from acetune.study.temporary import is_temporary, same_call

if TYPE_CHECKING:
    from acetune.study.result import StudyResult

STATES = ("running", "finished", "stopped", "failed", "interrupted", "rejected")
_STATUS = {  # what a word alone would not say
    "holds": "holds: the limits held on the fresh rows, but it is NOT certified",
    "unconfirmed": "unconfirmed: NOT certified",
}
_FAR = 0.5  # a violation, in limits: what misses by that much is no near miss


def summary_rows(result: StudyResult) -> list[tuple[str, str]]:
    """The lines of the summary: name and text."""
    goals, ledger = result.goals, result.ledger
    rows: list[tuple[str, str]] = []
    best, rejected = result.best, result.rejected
    if rejected is not None:
        rows.append(("answer", no_recommendation(result)))
        rows.append(("next", after_failed_confirmation(result)))
        rows.append(("best rejected", describe_checkpoint(goals, rejected)))
        rows.append(("status", "broken"))
        rows.append(("trust", trust_in_best(result)))
        rows.append(("you may say", claim(result)))
    elif best is None:
        name = "none feasible" if goals.constraints else "no answer"
        rows.append((name, nothing_feasible(result).text))
        if result.nearest_miss is not None:
            rows.append(("nearest miss", describe_checkpoint(goals, result.nearest_miss)))
    else:
        rows.append(("best feasible", describe_checkpoint(goals, best)))
    if best is not None:
        fault = best.model_fault()
        rows.append(("parameters", how_to_make(best, usable=fault is None)))
        rows.append(("status", _status_words(best)))
        rows.append(("trust", trust_in_best(result)))
        if (what := towards_a_certificate(result)) is not None:
            rows.append(("next", what))
        if goals.constraints:
            rows.append(("you may say", claim(result)))
        if best.checkpoint is not None:
            text = shown(best.checkpoint)
            rows.append(("model", text if fault is None else f"{text} {fault}; {best.instead()}"))
        elif result.limit_changes and ledger.disk_bytes > ledger.code_bytes:
            steps = count(best.step, "step")
            text = f"none was kept under the earlier limit; train these parameters for {steps}"
            rows.append(("model", text))
    if best is not None:
        rows.extend(("beware", text) for text in beware(goals, best))
    rows.extend(("changed", text) for text in what_changed(result))
    if result.looks and goals.constraints:
        rows.append(("looks", account_words(result)))
    if result.interrupted:
        rows.append(("ended", f"interrupted by the user; {same_call(result.study)} again goes on"))
    elif result.ended_code in ENOUGH:
        rows.append(("ended", str(result.ended)))
    elif result.ended_code == FAILED:
        rows.append(("ended", f"by {result.ended}"))
    counts = ", ".join(f"{result.counts[s]:,} {s}" for s in STATES if result.counts.get(s))
    rows.append(("trials", f"{sum(result.counts.values()):,} ({counts})"))
    for reason, n in list(result.reasons.items())[:4]:
        rows.append(("", f"{n:,} x {reason}"))
    rows.append(("reports", _reports(result)))
    rows.append(
        (
            "time",
            f"{duration(ledger.wall_s)}; on workers: start-up {duration(ledger.startup_s)}, "
            f"training {duration(ledger.training_s)}, "
            f"checks {duration(ledger.checks_s)} ({ledger.check_share:.0%} of both, "
            f"{count(ledger.checks, 'check')} in {count(ledger.reports, 'report')})",
        )
    )
    if ledger.waiting_s >= 1:
        rows.append(
            (
                "waiting",
                f"{duration(ledger.waiting_s)} on workers, so that checks could be measured alone",
            )
        )
    if len(ledger.by_constraint) > 1:
        each = [
            f"{name} {count(spent.checks, 'time')} in {timing(spent.seconds)}"
            for name, spent in ledger.by_constraint.items()
        ]
        rows.append(("measured", ", ".join(each)))
    if ledger.failed_checks:
        text = f"{ledger.failed_checks} of {ledger.checks} gave no number"
        if (failed := result.failed_check) is not None:
            if ledger.failed_checks < ledger.checks:  # else the first line has said it
                text += f"; the first, of {failed.constraint!r}: {failed.error}"
            closer = f"look closer: acetune explain {shown(result.study)} {failed.trial}"
            text += "; give study= to look closer" if is_temporary(result.study) else f"; {closer}"
        rows.append(("failed checks", text))
    if goals.constraints and ledger.invalid_s:
        rows.append(
            (
                "never valid",
                f"{duration(ledger.invalid_s)} went into trials that were checked and never valid",
            )
        )
    models = f"{size(ledger.disk_bytes - ledger.code_bytes)} of models"
    if ledger.code_bytes:
        models += f", and {size(ledger.code_bytes)} of code and data for the workers until it ends"
    goes = " (removed when this program ends: no study= was given)"
    where = shown(result.study) + (goes if is_temporary(result.study) else "")
    rows.append(("on disk", f"{models}, next to {where}"))
    return [(name, harmless(text)) for name, text in rows]


def _reports(result: StudyResult) -> str:
    """How many were checked, and why there is an answer where the search found none valid."""
    counts = [f"{result.strata.get(s, 0):,} {s}" for s in ("valid", "invalid", "unchecked")]
    text = ", ".join(counts)
    best = result.best
    if best is None or result.strata.get("valid") or not result.goals.constraints:
        return text
    if broken_limits(result.goals, best):
        return f"{text}; valid means: as far within the limits as the search aimed for"
    if any(change["how"] == "measure_again" for change in result.check_changes):
        return f"{text}; kept models were measured again by the changed check"
    return f"{text}; kept models were checked after the search"


def _status_words(found: FoundCheckpoint) -> str:
    if found.certified_approximately:
        return "certified: approximate (a bound holds only nearly, and with many rows)"
    return _STATUS.get(found.status, found.status)


def beware(goals: Goals, found: FoundCheckpoint) -> list[str]:
    """What makes the answer worth less than it seems, a sentence each."""
    return [*_one_class(found), *_doubtful_confirmation(goals, found)]


def _doubtful_confirmation(goals: Goals, found: FoundCheckpoint) -> list[str]:
    said = found.confirmation
    if said is None or said.status not in ("certified", "holds"):
        return []
    exact = [c.name for c in goals.constraints if c.compared_directly and c.name in said.values]
    words = []
    for name in exact:
        fresh, known = said.values[name].value, found.constraints.get(name, said.values[name]).value
        if not math.isclose(fresh, known, rel_tol=1e-6):
            words.append(
                f"confirm gave {number(fresh)} for {name}, and the search {number(known)} for the "
                "same model, although it is exact: do both measure the same?"
            )
    if chance_of_the_same(goals, found, said.values, said.bounds) <= SUSPICIOUS:
        words.append(
            "confirm gave exactly what the search had measured: if these are the rows of the "
            f"search, {found.status} means nothing"
        )
    return words


def _one_class(found: FoundCheckpoint) -> list[str]:
    """That a model predicts one class for nearly all rows, as its checks have noticed."""
    said = []
    for name, note in found.notes.items():
        if not note.get("degenerate"):
            continue
        predicted = note["predicted"]
        most = max(predicted, key=lambda label: predicted[label])
        said.append(
            f"the model predicts {most} for {percent(predicted[most])} of the rows of {name}: "
            "answers that are nearly all the same keep such a limit whatever the model has "
            "learnt; degenerate='fail' in the check refuses them"
        )
    return said


_CHANGED = {
    "accept": "a check was changed and that was accepted: values of the earlier one are mixed with "
    "those of the new one",
    "measure_again": "a check was changed, and the kept models were measured again: the earlier "
    "values were set aside, and other checkpoints count as never checked",
    "waiting": "a check was changed, and the kept models are to be measured again when the study "
    "goes on: until then no checkpoint counts as checked",
    "data": "data that a check uses has changed: values on the earlier data are mixed with the "
    "new ones",
    "confirm": "confirm was changed after it was used: what it said before stands",
    "fresh": "the fresh rows had been looked at by a study that this one learns from: they are not "
    "fresh, and a certificate on them is worth less than it says",
    "confirm of an earlier check": "confirm was changed after it was used: what it said of the "
    "current check stands, what it said of an earlier one does not",
}


def what_changed(result: StudyResult) -> list[str]:
    """With which other limits and which changed checks the study went on, a sentence each."""
    said = [
        f"after {count(change['seq'], 'report')}, limits were changed and all that was measured "
        f"was judged again ({'; '.join(change['what'])})"
        for change in result.limit_changes
    ]
    for change in result.check_changes:
        how = _how_changed(result, change)
        if how == "fresh" and not _concerns_the_answer(result, change):
            continue
        what = "; ".join(change["what"])
        said.append(f"after {count(change['seq'], 'report')}, {_CHANGED.get(how, how)} ({what})")
    return said


def _concerns_the_answer(result: StudyResult, change: Mapping[str, Any]) -> bool:
    """Whether fresh data was looked at for the answer on the rows that a note is about."""
    said = None if result.best is None else result.best.confirmation
    looks = {look["look"]: look["data"] for look in result.looks}
    return said is not None and looks.get(said.look) == change["what"][-1]


def _how_changed(result: StudyResult, change: Mapping[str, Any]) -> str:
    """Which sentence of ``_CHANGED`` is true now: another check may have been changed since."""
    if change["done"] is None:
        return "waiting"
    if change["how"] == "confirm":
        before = {look["look"] for look in result.looks if look["started"] <= change["time"]}
        if before & looks_of_earlier_checks(result.looks, result.check_changes):
            return "confirm of an earlier check"
    return str(change["how"])


def summary_html(result: StudyResult) -> str:
    """The summary as a small HTML table, for notebooks."""
    cells = "".join(
        f'<tr><th style="text-align:left;vertical-align:top;white-space:nowrap">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in summary_rows(result)
    )
    return f"<table>{cells}</table>"


def summary_text(result: StudyResult) -> str:
    """The summary as plain text."""
    return "\n".join(f"{name:14s} {text}" for name, text in summary_rows(result))


class NoAnswer(NamedTuple):
    """Why there is no answer, and what may help."""

    text: str
    tells_nearest: bool = False  # whether the text has what the nearest miss came to


def nothing_feasible(result: StudyResult) -> NoAnswer:
    """Why there is no answer, and what may help."""
    goals, ledger = result.goals, result.ledger
    checked, reports = ledger.checks, ledger.reports
    if not reports:
        ended = result.ended is not None
        return NoAnswer(_nothing_reported(result) if ended else "nothing reported so far")
    if not checked and result.finite_reports == 0:
        text = (
            f"{goals.objective.name} was not a finite number in any of {count(reports, 'report')}"
        )
        return NoAnswer(f"nothing could be checked: {text}" if goals.constraints else text)
    if result.ended is None:  # it runs, or was killed: more may come
        made = f"{count(checked, 'check')} made so far, in {count(reports, 'report')}"
        return NoAnswer(f"none yet: {made}")
    failed = result.failed_check
    if checked and ledger.failed_checks == checked and failed is not None:
        # more checks would fail as well: the check has to be fixed
        which = "the one check that was made"
        if checked > 1:
            which = f"every one of the {checked:,} checks that were made"
        return NoAnswer(
            f"{which} failed, so nothing is known to qualify; the check of "
            f"{failed.constraint!r} says: {failed.error}"
        )
    text = "the one checkpoint that was checked does not qualify"
    if checked != 1:
        text = f"none of the {checked:,} checkpoints that were checked qualifies"
    miss, by_constraint = result.nearest_miss, ledger.by_constraint
    rarest = min(by_constraint, key=lambda name: by_constraint[name].checks, default="")
    if rarest and 2 * by_constraint[rarest].checks < checked:
        text += (
            f"; {rarest} was measured of {by_constraint[rarest].checks:,} of them, as another "
            f"limit was broken first: {_measuring_all(result)} measures all"
        )
    elif miss is not None and miss.violation >= _FAR:
        near = ", ".join(
            f"{limit.name} {number(miss.constraints[limit.name].value, 4)} (limit {_limit(limit)})"
            for limit in broken_limits(goals, miss)
        )
        text += f", and the nearest is far away, with {near}: is the limit right?"
        return NoAnswer(text, tells_nearest=True)
    elif 2 * checked < reports and not result.due_at_every_step:
        text += (
            f"; {reports:,} were reported, and policy='ace-beta1' (check at every step) checks "
            "more of them"
        )
    return NoAnswer(text)


def _nothing_reported(result: StudyResult) -> str:
    """That no trial came to its first report, and what the time was spent on."""
    text = "nothing was reported"
    begun = result.counts.get("interrupted", 0)
    if result.ended_code != BUDGET_SPENT.code or sum(result.counts.values()) > begun:
        return text
    budget = json.loads(result.info["settings"])["time_budget_s"]
    text += f": the time budget of {timing(budget)} was spent before the first report"
    if not begun:
        text += ", while the workers were starting"
    elif not result.ledger.startup_s:
        text += f", while {count(begun, 'trial')} set up the training (before trial.steps)"
    else:
        text += (
            f": {count(begun, 'trial')} took {timing(result.ledger.startup_s)} to set up and did "
            "not come to the end of a first step"
        )
    return f"{text}; raise time_budget_s, or see what takes so long with dry_run=True"


def _measuring_all(result: StudyResult) -> str:
    """The policy of the study, changed so that it leaves out no constraint."""
    policy = json.loads(result.info["policy"])
    option = "one_by_one=False" if "one_by_one" in policy else "one_by_one = False in its class"
    return f"{policy['name']} with {option}"


def _limit(constraint: Constraint) -> str:
    return constraint.describe().removeprefix(f"{constraint.name} ")


def describe_checkpoint(goals: Goals, found: FoundCheckpoint) -> str:
    """Objective, constraints against their limits, and where it is."""
    goals = goals.with_margins(found.margins)  # those of its checks: a later session has others
    parts = [f"{goals.objective.name} {number(found.value)}"]
    for constraint in goals.constraints:
        measured = found.constraints.get(constraint.name)
        value = missing_words(found.violation) if measured is None else estimate(*measured)
        parts.append(f"{constraint.name} {value} (limit {_limit(constraint)})")
    return f"{', '.join(parts)}; trial {found.trial}, {step_of(found)}"


def step_of(found: FoundCheckpoint) -> str:
    """Which step of how many: ``step 15 of 84``."""
    of = "" if found.total_steps is None else f" of {found.total_steps}"
    return f"step {found.step}{of}"


def how_to_make(found: FoundCheckpoint, *, usable: bool = True) -> str:
    """The parameters, and that they alone do not make it where training would go on.

    ``usable``: whether a model that was kept can be loaded.
    """
    text = parameters(found.params)
    if found.step == found.total_steps:
        return text
    kept = "" if found.checkpoint is None or not usable else ", or use the model that was kept"
    return f"{text}; stop at {step_of(found)}{kept}"


def shown(path: Path) -> str:
    """A path as people would type it: from the current folder, where it lies below it."""
    with contextlib.suppress(ValueError):
        path = path.relative_to(Path.cwd())
    return harmless(str(path))
