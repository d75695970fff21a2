"""Reasons: codes with numbers, in words only where they are read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import acetune
from acetune.cli import app
from acetune.core.goals import Goals, Objective
from acetune.core.history import History
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import NO_REASON, Reason, Wording, stated
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies import Action, Decision, Policy
from acetune.report.figures import FIGURES
from acetune.report.figures._figure_data import FigureData
from acetune.run._messages import decode, encode
from acetune.study.reader import StudyView
from acetune.testing import check_policy
from acetune.trial.link import Reply
from report.written import Written, planned, write
from run.helpers import by_hand, rows, tune


def test_the_short_form_names_what_is_counted_together() -> None:
    cut = Wording("cut", "rank {rank}: worst {share:.0%}", "worst {share:.0%}")
    reasons = [Reason(cut, {"rank": rank, "share": 0.25}) for rank in (3, 4)]
    assert [str(reason) for reason in reasons] == ["rank 3: worst 25%", "rank 4: worst 25%"]
    assert {reason.short for reason in reasons} == {"worst 25%"}
    assert [reason.shared for reason in reasons] == [{"share": 0.25}] * 2


def test_texts_are_not_templates() -> None:
    text = "KeyError: '{rank} {0} {' %s"
    assert str(stated("error", text)) == stated("error", text).short == text


@pytest.mark.parametrize("sentence", ["{missing}", "{rank:.2q}", "{rank.real.x}", "{", "{rank[0]}"])
def test_a_sentence_that_cannot_be_filled_shows_what_is_known(sentence: str) -> None:
    reason = Reason(Wording("own", sentence), {"rank": 3})
    assert "rank" in str(reason) and "3" in str(reason)


def test_no_reason_is_false_and_empty() -> None:
    assert not NO_REASON and str(NO_REASON) == NO_REASON.short == ""


def test_a_decision_is_the_same_after_a_message() -> None:
    why = Wording("mine", "rank {rank}, {limit}", "{limit}")
    decision = Decision(Action.STOP, why, "valid", 2, 3, 4, {"limit": 0.5})
    plain = Decision(Action.CONTINUE, "step {step}", step=4)
    for given in (decision, plain):
        told = decode(encode(Reply(given, 1.0, 2.0, given.stop, False))).decision
        assert (told.action, told.because) == (given.action, given.because)
        assert told.reason == given.reason


# -- a policy that no other file knows -----------------------------------------------------------

_TIDE = Wording(
    "tide", "step {step} is past the {tide} tide of {height:.1f} m", "past the {tide} tide"
)
_DRY = Wording("dry", "step {step} is dry")
_LOW = Wording("checked_at_low_tide", "due at low tide, every {hours} steps", "at low tide")


@dataclass(frozen=True)
class Tide(Policy):
    """Stops every second trial at its step 2."""

    hours: int = 6

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        if report.step == 2 and trial.order % 2:
            numbers: dict[str, Any] = {"tide": "spring", "height": np.float32(4.5 + trial.order)}
            return Decision(Action.STOP, _TIDE, report.stratum, step=2, numbers=numbers)
        return Decision(Action.CONTINUE, _DRY, report.stratum, step=report.step)

    def schedule(self, trial: TrialRecord) -> Reason:
        return Reason(_LOW, {"hours": self.hours})


def test_its_reasons_are_told_in_its_own_words(study: Path) -> None:
    limit = acetune.Constraint("g", upper=9, check=lambda model: model[2])
    table = [[(1.0, 1.0), (0.9, 1.0), (0.8, 1.0)]] * 5
    result = tune(by_hand(table), study, xs=range(5), policy=Tide(), constraints=[limit])

    assert result.counts == {"finished": 3, "stopped": 2}
    assert result.reasons == {"past the spring tide": 2}
    reasons = rows(study, "SELECT reason, reason_numbers FROM trials WHERE state = 'stopped'")
    assert [row["reason"] for row in reasons] == ["tide", "tide"]
    assert [json.loads(row["reason_numbers"])["height"] for row in reasons] == [5.5, 7.5]
    told = CliRunner().invoke(app, ["explain", str(study), "2"], env={"COLUMNS": "200"}).output
    assert "trial 2 stopped: step 2 is past the spring tide of 5.5 m\n" in told
    assert "constraint: due at low tide, every 6 steps\n" in told


def test_it_passes_the_checks_of_policies() -> None:
    check_policy(Tide())


# -- texts in place of wordings, and codes that come back ----------------------------------------


@dataclass(frozen=True)
class Plain(Policy):
    """Stops every second trial, and says why in a text of its own."""

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        action = Action.STOP if trial.order % 2 else Action.CONTINUE
        return Decision(action, f"trial {trial.order} at step {{step}}", step=report.step)


def test_texts_of_a_policy_stay_those_of_each_trial(study: Path) -> None:
    table = [[(1.0, 1.0), (0.9, 1.0)]] * 4
    result = tune(by_hand(table), study, xs=range(4), policy=Plain())
    reasons = list(result.trials["reason"])
    assert reasons[1::2] == ["trial 1 at step 1", "trial 3 at step 1"]


def test_a_code_with_other_words_does_not_change_what_was_written(tmp_path: Path) -> None:
    store = write(Written(Goals(Objective("loss")), []), tmp_path / "study.db")
    texts = ["first", "second {n}", "first"]
    with store.transaction():
        for trial, text in enumerate(texts, 1):
            store.add_trial(trial, 1, {}, 1e9, 0)
            reason = Reason(Wording("cut", text), {"n": trial})
            store.end_trial(trial, 1, "stopped", reason, 1e9)
    rows = store.attempts()
    store.close()
    assert [str(row.reason) for row in rows] == ["first", "second 2", "first"]
    assert [row.reason.code for row in rows] == ["cut", "cut_2", "cut"]


def test_a_policy_with_its_own_checks_is_not_said_to_check_every_step() -> None:
    @dataclass(frozen=True)
    class Odd(Tide):
        def due(self, trial: Any, step: int, loss: float) -> int | None:
            return step if step % 2 else None

        schedule = Policy.schedule

    class From(Odd):
        def first_check(self, total_steps: int | None, costs: Any) -> int | None:
            return 3

    class First(From):  # what it says of a first check has no part in when it is made
        due = Policy.due

    assert str(planned(Odd(), 8, 8, None)[-1]) == "due when the policy asks for it"
    told = str(planned(From(), 8, 3, None)[-1])
    assert told == "due from step 3 on, when the policy asks for it"
    assert str(planned(First(), 8, 3, None)[-1]) == "due once, at the end of 8 steps"


@dataclass(frozen=True)
class EveryThird(Policy):
    """Says when it checks and nothing more: three times in nine steps."""

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        return None if step % 3 else step

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        return Decision(Action.CONTINUE, _DRY, report.stratum, step=report.step)


def test_a_policy_that_says_only_when_a_check_is_due_is_told_of_as_it_checks(study: Path) -> None:
    limit = acetune.Constraint("g", upper=9, check=lambda model: model[2])
    table = [[(1.0 - step / 10, 1.0) for step in range(9)]] * 2
    tune(by_hand(table), study, xs=range(2), policy=EveryThird(), constraints=[limit])

    told = CliRunner().invoke(app, ["explain", str(study), "1"], env={"COLUMNS": "200"}).output
    assert "constraint: due when the policy asks for it\n" in told
    assert [line.split()[1] for line in told.splitlines() if " valid" in line] == ["3", "6", "*"]
    assert "\nunchecked: no check was due there, or" in told
    drawing = FIGURES["intervals"](FigureData(StudyView(study)))
    assert drawing.table is not None
    assert [row[:2] for row in drawing.table.rows] == [["when asked", "2"]]
    assert "2 trials were to be checked when asked, 0 only at the end." in drawing.alt
