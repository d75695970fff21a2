"""Confirmation: kept models are judged on fresh data, best first, and every look is recorded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import ACE, Constraint, Estimate, StudyResult
from engines.helpers import Events, append_line, by_hand, g_of, read_lines, rows, tune

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
    assert best is not None and (best.trial, best.status) == (2, "confirmed")
    assert best.confirmation is not None
    assert best.confirmation.values == {"loss": Estimate(1.25), "g": Estimate(1.5, 0.1)}
    low, high = best.confirmation.interval("g") or (0.0, 0.0)
    assert (low, high) == pytest.approx((1.304, 1.696), abs=1e-3)
    assert best.confirmation.interval("loss") is None
    assert uses(study) == [(2, "confirmed")] and result.confirmation_uses == 1
    assert read_lines(looks) == [["2", "1", "1.0"]]
    assert best.value == 1.0  # the search's own value stands beside it
    assert "confirmed on fresh data: loss 1.25, g 1.5 (95 %: 1.304 to 1.696)" in str(result)
    assert acetune.load(study).best == best


def test_a_runner_up_is_confirmed_when_the_first_fails(study: Path) -> None:
    result = run(study, lambda model: {"g": 9.0 if model[0] == 2 else 2.0})

    assert result.best is not None and (result.best.trial, result.best.status) == (3, "confirmed")
    assert uses(study) == [(2, "failed"), (3, "confirmed")]
    assert [found.status for found in result.candidates] == ["failed", "confirmed", "unconfirmed"]


def test_all_fail(study: Path) -> None:
    result = run(study, lambda model: {"g": 2.5})

    assert result.best is not None and (result.best.trial, result.best.status) == (2, "failed")
    assert uses(study) == [(2, "failed"), (3, "failed"), (1, "failed")]
    text = str(result)
    first = "no model can be recommended: all 3 candidates broke a limit on fresh data. "
    first += "The best had g 2.5 there (limit <= 2; 1 where it was chosen)"
    assert text.startswith(f"answer         {first}\n")  # before any value of the search
    assert "best feasible" not in text and "not measured" not in text
    # without a standard error a margin has no effect
    assert "a stricter limit of g; or judge more candidates, confirm_top=7 (now 3)" in text
    assert "broke a limit on fresh data: g 2.5 (limit <= 2; 1 where it was chosen)" in text


def test_a_margin_is_named_where_it_has_an_effect(study: Path) -> None:
    limit = Constraint("g", upper=2, margin_se=1, check=lambda model: Estimate(1.0, 0.5))
    result = run(study, lambda model: {"g": 2.5}, top=1, constraints=[limit])

    assert "the candidate that was judged broke a limit on fresh data. It had g" in str(result)
    assert "in a new study: margin_se=2 for g;" in str(result)


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

    assert "confirmed on fresh data: " in text
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
        (lambda model: 1.0, "TypeError"),
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
    assert uses(study) == [(2, "unconfirmed"), (2, "confirmed")]
    assert again.best is not None and again.best.status == "confirmed"


def test_fresh_data_owes_nothing_to_the_margin_of_the_search(study: Path) -> None:
    careful = Constraint("g", upper=2, margin_se=3, check=lambda model: Estimate(1.0, 0.1))
    result = run(study, lambda model: {"g": Estimate(1.95, 0.1)}, constraints=[careful])

    assert result.best is not None and result.best.status == "confirmed"


def test_what_was_judged_is_not_judged_again(study: Path) -> None:
    def confirm(model: tuple[int, int, float]) -> dict[str, Any]:
        return {"g": 9.0 if model[0] == 2 else 2.0}

    run(study, confirm)
    before = uses(study)
    again = run(study, confirm)

    assert uses(study) == before == [(2, "failed"), (3, "confirmed")]
    assert again.best is not None and again.best.status == "confirmed"


def test_a_better_model_found_later_is_judged_too(study: Path) -> None:
    run(study, lambda model: {"g": 1.0}, max_trials=1)
    result = run(study, lambda model: {"g": 1.0})

    assert uses(study) == [(1, "confirmed"), (2, "confirmed")]
    assert result.best is not None and result.best.trial == 2


def test_the_gate_lets_runners_up_through(study: Path) -> None:
    """With confirm_top=2 a checkpoint worse than the best is checked while it can be second."""
    result = run(study, lambda model: {"g": 9.0 * (model[0] == 2)}, top=2, keep_models=1)

    assert [found.trial for found in result.candidates] == [2, 3]
    assert result.best is not None and (result.best.trial, result.best.status) == (3, "confirmed")


def test_without_confirmation_the_answer_says_so(study: Path) -> None:
    result = run(study, None)  # type: ignore[arg-type]

    assert result.best is not None and result.best.status == "unconfirmed"
    assert uses(study) == [] and "unconfirmed" in str(result)


def test_metrics_of_a_use_are_in_the_file(study: Path) -> None:
    run(study, lambda model: {"loss": 2, "g": (1.5, 0.25)}, top=1)

    row = rows(study, "SELECT * FROM confirmations")[0]
    assert json.loads(row["metrics"]) == {"loss": [2.0, 0.0], "g": [1.5, 0.25]}


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

    assert result.best is not None and result.best.status == "confirmed"
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
    share = Constraint("g", upper=2, check=Share())
    fresh = Estimate(value, 0.1 / 1.959963984540054 * (1.9 if value < 1 else 2.0))
    result = run(study, lambda model: {"g": fresh}, constraints=[share], top=1)

    assert f"(95 %: {ends})" in str(result)


def test_a_range_may_be_open_at_an_end(study: Path) -> None:
    class Size(Share):
        value_range = (0.0, math.inf)

    limit = Constraint("g", upper=2, check=Size())
    result = run(study, lambda model: {"g": Estimate(0.0, 1.0)}, constraints=[limit], top=1)

    assert "(95 %: 0 to 1.96; cut at 0)" in str(result)
    assert "Infinity" not in result.info["settings"]  # other programs read JSON too


def test_an_interval_of_a_quantity_without_a_known_range_is_left_as_it_is(study: Path) -> None:
    result = run(study, lambda model: {"g": Estimate(0.0, 1.0)}, top=1)

    assert "(95 %: -1.96 to 1.96)" in str(result)


def test_true_confirms_nothing(study: Path) -> None:
    result = run(study, lambda model: {"g": True}, top=1)
    assert uses(study) == [(2, "unconfirmed")]
    assert result.best is not None and result.best.confirmation is not None
    assert "'g' must be a number, got True" in (result.best.confirmation.error or "")
