"""Confirmation: kept models are judged on fresh data, and every look is recorded."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import ACE, Constraint, Estimate, StudyResult
from acetune.core.goals import Goals, Objective
from acetune.study.reader import StudyView
from report.written import Attempt, Written, write
from run.helpers import Events, append_line, by_hand, g_of, read_lines, rows, tune

# trial 2 is best, then 3, 1, 4; the search finds all of them valid
TABLE = [[(3.0, 1.0)], [(1.0, 1.0)], [(2.0, 1.0)], [(4.0, 1.0)]]


def run(study: Path, confirm: Callable[..., Any], top: int = 3, **options: Any) -> StudyResult:
    defaults = {
        "constraints": [Constraint("g", upper=2, check=g_of)],
        "policy": ACE(truncation=0, interval=1),
        "xs": range(4),
    }
    return tune(by_hand(TABLE), study, confirm=confirm, confirm_top=top, **(defaults | options))


def uses(study: Path) -> list[tuple[int, str]]:
    found = rows(study, "SELECT * FROM confirmations ORDER BY use")
    return [(row["trial"], row["status"]) for row in found]


def test_the_best_is_confirmed(study: Path, tmp_path: Path) -> None:
    looks = tmp_path / "looks"

    def confirm(model: tuple[int, int, float]) -> dict[str, Any]:
        append_line(looks, *model)
        return {"loss": 1.25, "g": Estimate(1.5, 0.1)}

    result = run(study, confirm)

    best = result.best
    assert best is not None and (best.trial, best.status) == (2, "certified")
    assert result.status == "certified"
    assert best.confirmation is not None
    assert best.confirmation.values == {"loss": Estimate(1.25), "g": Estimate(1.5, 0.1)}
    low, high = best.confirmation.interval("g") or (0.0, 0.0)
    assert (low, high) == pytest.approx((1.304, 1.696), abs=1e-3)
    assert best.confirmation.interval("loss") is None
    assert uses(study) == [(2, "certified")] and result.confirmation_uses == 1
    assert read_lines(looks) == [["2", "1", "1.0"]]
    assert best.value == 1.0  # the search's own value stands beside it
    text = str(result)
    assert "certified on fresh data: loss 1.25, g 1.5 (limit <= 2; a limit of 1.678 would" in text
    assert "this model is certified to keep g <= 2 on data like the fresh rows" in text
    words = (
        "1 look at fresh data. A study may issue a wrong certificate with a probability of at most "
    )
    assert f"{words}5 %, and each look uses up a part" in text
    assert acetune.load(study).best == best


def test_a_runner_up_is_confirmed_when_the_first_fails(study: Path) -> None:
    result = run(study, lambda model: {"g": 9.0 if model[0] == 2 else 2.0})

    assert result.best is not None and (result.best.trial, result.best.status) == (3, "holds")
    assert uses(study) == [(2, "broken"), (3, "holds")]
    assert [found.status for found in result.candidates] == ["broken", "holds", "unconfirmed"]


def test_all_fail(study: Path) -> None:
    result = run(study, lambda model: {"g": 2.5})

    assert result.best is None and result.outcome == "rejected"
    assert result.rejected is not None and result.rejected.trial == 2
    assert [(f.trial, f.status) for f in result.candidates] == [
        (2, "broken"), (3, "broken"), (1, "broken")
    ]  # fmt: skip
    assert result.rejected.confirmation is not None
    assert result.rejected.confirmation.values == {"g": Estimate(2.5)}
    assert uses(study) == [(2, "broken"), (3, "broken"), (1, "broken")]
    text = str(result)
    first = "no model can be recommended: all 3 candidates that were judged broke a limit on "
    first += (
        "fresh data. The one with the best loss had g 2.5 there (limit <= 2; 1 where it was chosen)"
    )
    assert text.startswith(f"answer         {first}\n")  # before any value of the search
    assert "best feasible" not in text and "not measured" not in text
    # without a standard error a margin has no effect
    assert "(a stricter limit of g) and tests more candidates (confirm_top=7, now 3)" in text
    assert "Give it new fresh rows" in text
    assert "broke a limit on fresh data: g 2.5 (limit <= 2; 1 where it was chosen)" in text
    # neither the parameters nor the model are offered
    assert "\nparameters" not in text and "\nmodel" not in text
    assert acetune.load(study).outcome == "rejected"


def test_an_unjudged_one_further_down_is_not_handed_over_instead(study: Path) -> None:
    result = run(study, lambda model: {"g": 2.5}, top=1)

    assert result.best is None and result.outcome == "rejected"
    # trial 1 was checked before the better ones came
    assert [(f.trial, f.status) for f in result.candidates] == [(2, "broken"), (1, "unconfirmed")]

    again = run(study, lambda model: {"g": 1.0}, top=2)
    assert uses(study) == [(2, "broken"), (1, "holds")]
    assert again.best is not None and again.best.trial == 1 and again.outcome == "feasible"
    assert again.rejected is None


def test_the_rejection_is_told_to_listeners(study: Path) -> None:
    events = Events()
    run(study, lambda model: {"g": 2.5}, callbacks=[events])

    assert [note for note in events.notices if "no model can be recommended: all 3" in note]


def test_a_rejection_stands_without_confirm(study: Path) -> None:
    """New candidates, better than those rejected, are not handed over unjudged."""
    run(study, lambda model: {"g": 2.5}, max_trials=1)
    without = run(study, None, max_trials=4)  # type: ignore[arg-type]

    assert [found.trial for found in without.candidates] == [2, 3, 1]
    assert without.best is None and without.outcome == "rejected"

    judged = run(study, lambda model: {"g": 1.0}, max_trials=4)
    assert judged.best is not None and judged.best.trial == 2
    assert uses(study) == [(1, "broken"), (2, "holds")]


def test_a_rejection_stands_when_better_ones_push_it_out(study: Path) -> None:
    """The rejected one is no longer among the best that are kept, and is remembered."""
    run(study, lambda model: {"g": 2.5}, top=1, keep_models=1, max_trials=1)
    result = run(study, None, top=1, keep_models=1)  # type: ignore[arg-type]

    assert [(f.trial, f.status) for f in result.candidates] == [(2, "unconfirmed"), (1, "broken")]
    assert result.best is None and result.rejected is not None and result.rejected.trial == 1


def test_a_confirmed_one_stays_the_answer_when_better_ones_push_it_out(study: Path) -> None:
    run(study, lambda model: {"g": 1.0}, top=1, keep_models=1, max_trials=1)
    result = run(study, lambda model: {"g": 2.5}, top=1, keep_models=1)

    assert uses(study) == [(1, "holds"), (2, "broken")]
    assert result.best is not None and (result.best.trial, result.best.status) == (1, "holds")


def verdicts(study: Path, *found: tuple[int, str]) -> StudyResult:
    """Trial 1 with a second attempt that is better, and what fresh data said of its attempts."""
    goals = Goals(Objective("loss"), (Constraint("g", upper=2),))
    attempts = [Attempt([(loss, {"g": Estimate(1.0)})], None, "finished", 0) for loss in (2.0, 1.0)]
    other = Attempt([(4.0, {"g": Estimate(1.0)})], None, "finished", 0)
    with contextlib.closing(write(Written(goals, [attempts, [other]]), study)) as store:
        for attempt, status in found:
            with store.transaction():
                fresh = {"g": (9.0 if status == "broken" else 1.0, 0.0)}
                store.add_confirmation(1, attempt, 1, status, fresh, None, 0.0)
    return acetune.load(study)


def test_a_rejection_stands_beside_a_later_attempt(study: Path) -> None:
    """The better checkpoint that the trial has found since is to be judged for itself."""
    result = verdicts(study, (1, "broken"))

    assert [(f.trial, f.attempt, f.status) for f in result.candidates] == [
        (1, 2, "unconfirmed"), (1, 1, "broken"), (2, 1, "unconfirmed")
    ]  # fmt: skip
    assert result.best is None and result.outcome == "rejected"


@pytest.mark.parametrize("better", [1, 2])
def test_of_two_attempts_the_confirmed_one_is_the_answer(study: Path, better: int) -> None:
    result = verdicts(study, (better, "holds"), (3 - better, "broken"))

    best = result.best
    assert best is not None and (best.trial, best.attempt) == (1, better)
    assert best.status == "holds" and result.outcome == "feasible"


def test_while_confirm_is_under_way_nothing_rejected_is_handed_over(
    study: Path, tmp_path: Path
) -> None:
    """Read in the middle: by the second call of confirm the first verdict is in the file."""
    seen = tmp_path / "seen"

    def confirm(model: tuple[int, int, float]) -> dict[str, Any]:
        result = acetune.load(study)
        best = "none" if result.best is None else result.best.trial
        append_line(seen, model[0], result.outcome, best)
        return {"g": 2.5 * (model[0] == 2)}

    run(study, confirm)
    assert read_lines(seen) == [["2", "feasible", "2"], ["3", "rejected", "none"]]


def test_some_rejected_and_the_rest_not_to_be_judged(study: Path) -> None:
    def confirm(model: tuple[int, int, float]) -> dict[str, Any]:
        if model[0] != 2:
            raise FileNotFoundError("fresh.csv")
        return {"g": 2.5}

    result = run(study, confirm)
    assert uses(study) == [(2, "broken"), (3, "unconfirmed"), (1, "unconfirmed")]
    assert result.best is None and result.outcome == "rejected"


@pytest.mark.parametrize(
    "answer",
    [
        {"g": 9.0, "h": math.nan},
        {"g": 9.0, "h": None},
        {"g": 9.0, "h": 1.0, "loss": math.nan},
        {"g": 9.0},  # a constraint is missing
        {"g": 9.0, "h": 1.0, "los": 1.0},  # a name is wrong
    ],
)
def test_a_broken_limit_counts_whatever_else_went_wrong(
    study: Path, answer: dict[str, Any]
) -> None:
    limits = [Constraint(name, upper=2, check=g_of) for name in ("g", "h")]
    result = run(study, lambda model: answer, top=1, constraints=limits)

    assert uses(study) == [(2, "broken")]
    assert result.best is None and result.outcome == "rejected"
    assert "g 9 there (limit <= 2; 1 where it was chosen)" in str(result)
    assert "broke a limit on fresh data: g 9 (" in str(result)


def test_a_margin_is_named_where_it_has_an_effect(study: Path) -> None:
    limit = Constraint("g", upper=2, margin_se=1, check=lambda model: Estimate(1.0, 0.5))
    result = run(study, lambda model: {"g": 2.5}, top=1, constraints=[limit])

    assert "the candidate that was judged broke a limit on fresh data. It had g" in str(result)
    assert "farther from the limit (margin_se=2 for g) and" in str(result)


@pytest.mark.parametrize(
    ("fresh", "words"),
    [
        ({"loss": 1.25, "g": 1.0}, "; expect loss about 1.25: 0.25 more than where it was chosen"),
        ({"loss": 1.0001, "g": 1.0}, None),
        ({"loss": 0.5, "g": 1.0}, None),
        ({"loss": Estimate(1.25, 0.2), "g": 1.0}, None),  # that may be chance
        ({"g": 1.0}, "; loss was not measured on fresh data"),
    ],
)
def test_what_became_of_the_objective_is_said(
    study: Path, fresh: dict[str, Any], words: str | None
) -> None:
    text = str(run(study, lambda model: fresh, top=1))

    assert "holds on fresh data, not certified: " in text
    if words is not None:
        assert words in text
    else:
        assert "expect" not in text and "not measured" not in text


def dies(model: object) -> dict[str, Any]:
    import os

    os._exit(7)


def raises(model: object) -> dict[str, Any]:
    raise FileNotFoundError("fresh.csv")


@pytest.mark.parametrize(
    ("confirm", "error"),
    [
        (raises, "FileNotFoundError: fresh.csv (line "),  # and where
        (dies, "worker process exited with status 7"),
        (lambda model: {"loss": 1.0}, "confirm returned no 'g'; it must return every constraint"),
        (lambda model: {"g": math.nan}, "confirmed 'g' is nan"),
        (lambda model: {"g": None}, "confirmed 'g' must be a number, got None"),
        (lambda model: 1.0, "confirm returned 1.0, no dict; return every constraint by its name"),
        (lambda model: None, "confirm returned nothing; return every constraint by its name, and"),
        (lambda model: [("g", 1.0)], "no dict; return every constraint by its name, and the obj"),
    ],
)
def test_a_confirmation_that_goes_wrong_is_a_use_and_no_verdict(
    study: Path, confirm: Callable[..., Any], error: str
) -> None:
    result = run(study, confirm, top=1)

    assert uses(study) == [(2, "unconfirmed")]
    assert result.best is not None and result.best.confirmation is not None
    assert result.best.status == "unconfirmed"
    assert error in (result.best.confirmation.error or "")
    assert f"confirm went wrong: {result.best.confirmation.error}" in str(result)

    again = run(study, lambda model: {"g": 1.0}, top=1)  # mended, and judged again
    assert uses(study) == [(2, "unconfirmed"), (2, "holds")]
    assert again.best is not None and again.best.status == "holds"


def test_what_is_no_dict_confirms_nothing_and_spares_the_fresh_data(
    study: Path, tmp_path: Path
) -> None:
    looks = tmp_path / "looks"

    def confirm(model: Any) -> Any:
        append_line(looks, *model)
        return 1.0

    run(study, confirm)
    assert uses(study) == [(2, "unconfirmed")] and len(read_lines(looks)) == 1


def test_fresh_data_owes_nothing_to_the_margin_of_the_search(study: Path) -> None:
    careful = Constraint("g", upper=2, margin_se=3, check=lambda model: Estimate(1.0, 0.1))
    result = run(study, lambda model: {"g": Estimate(1.95, 0.1)}, constraints=[careful])
    assert "these rows cannot rule out g 2.128" in str(result)

    assert result.best is not None and result.best.status == "holds"


def test_what_was_judged_is_not_judged_again(study: Path) -> None:
    def confirm(model: tuple[int, int, float]) -> dict[str, Any]:
        return {"g": 9.0 if model[0] == 2 else 2.0}

    run(study, confirm)
    before = uses(study)
    again = run(study, confirm)

    assert uses(study) == before == [(2, "broken"), (3, "holds")]
    assert again.best is not None and again.best.status == "holds"


def test_a_better_model_found_later_is_judged_too(study: Path) -> None:
    run(study, lambda model: {"g": 1.0}, max_trials=1)
    result = run(study, lambda model: {"g": 1.0})

    assert uses(study) == [(1, "holds"), (2, "holds")]
    assert result.best is not None and result.best.trial == 2


def test_the_gate_lets_runners_up_through(study: Path) -> None:
    """With confirm_top=2 a checkpoint worse than the best is checked while it can be second."""
    result = run(study, lambda model: {"g": 9.0 * (model[0] == 2)}, top=2, keep_models=1)

    assert [found.trial for found in result.candidates] == [2, 3]
    assert result.best is not None and (result.best.trial, result.best.status) == (3, "holds")


def test_without_confirmation_the_answer_says_so(study: Path) -> None:
    result = run(study, None)  # type: ignore[arg-type]

    assert result.best is not None and result.best.status == "unconfirmed"
    assert uses(study) == [] and "unconfirmed" in str(result)


def test_metrics_of_a_use_are_in_the_file(study: Path) -> None:
    run(study, lambda model: {"loss": 2, "g": (1.5, 0.25)}, top=1)

    row = rows(study, "SELECT * FROM confirmations")[0]
    assert json.loads(row["metrics"]) == {"loss": [2.0, 0.0], "g": [1.5, 0.25]}
    (use,) = StudyView(study).confirmations
    assert use["metrics"]["g"].stderr == 0.25  # decoded, once for all readers


# -- the names in the answer ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"los": 1.25, "g": 1.0}, "the unknown 'los', did you mean the objective?"),
        ({"auc": 1.25, "g": 1.0}, "the unknown 'auc', other metrics need the objective"),
        ({"loss": 1.25, "G": 1.0}, "no 'g', but 'G'"),
    ],
)
def test_a_misspelt_name_confirms_nothing_and_spares_the_fresh_data(
    study: Path, answer: dict[str, float], words: str
) -> None:
    events = Events()
    result = run(study, lambda model: answer, callbacks=[events])

    assert result.best is not None and result.best.status == "unconfirmed"
    assert words in str(result) and [note for note in events.notices if words in note]
    assert "every constraint ('g')" in str(result) and "the objective ('loss')" in str(result)
    assert uses(study) == [(2, "unconfirmed")]  # not three times


def test_other_metrics_may_come_beside_the_objective(study: Path) -> None:
    result = run(study, lambda model: {"loss": 1.25, "g": 1.0, "auc": 0.75})

    assert result.best is not None and result.best.status == "holds"
    assert "g 1, auc 0.75" in str(result)


# -- intervals -----------------------------------------------------------------------------------


class Share:
    """A check that knows what its values can be."""

    value_range = (0.0, 1.0)

    def __call__(self, model: object) -> float:
        return 0.1


@pytest.mark.parametrize(
    ("value", "ends"), [(0.01, "0 to 0.2; cut at 0"), (1, "0.8 to 1; cut at 1")]
)
def test_an_interval_ends_where_the_range_does(study: Path, value: float, ends: str) -> None:
    share = Constraint("g", upper=0.1 if value < 1 else 1.0, check=Share())
    fresh = Estimate(value, 0.1 / 1.959963984540054 * (1.9 if value < 1 else 2.0))
    result = run(study, lambda model: {"g": fresh}, constraints=[share], top=1)

    assert f"(95 %: {ends})" in str(result)


def test_a_range_may_be_open_at_an_end(study: Path) -> None:
    class Size(Share):
        value_range = (0.0, math.inf)

    limit = Constraint("g", upper=1.5, check=Size())
    result = run(study, lambda model: {"g": Estimate(0.0, 1.0)}, constraints=[limit], top=1)

    assert "(95 %: 0 to 1.96; cut at 0)" in str(result)
    assert "Infinity" not in result.info["settings"]  # other programs read JSON too


def test_an_interval_of_a_quantity_without_a_known_range_is_left_as_it_is(study: Path) -> None:
    result = run(study, lambda model: {"g": Estimate(0.5, 1.0)}, top=1)

    assert "(95 %: -1.46 to 2.46)" in str(result)


def test_true_confirms_nothing(study: Path) -> None:
    result = run(study, lambda model: {"g": True}, top=1)
    assert uses(study) == [(2, "unconfirmed")]
    assert result.best is not None and result.best.confirmation is not None
    assert "'g' must be a number, got True" in (result.best.confirmation.error or "")
