"""The paper's fairness experiment with real training: its studies, run one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from acetune.core.decision import Decision
from acetune.core.goals import Constraint
from acetune.reproduce.live_plan import LiveCase, LivePlan
from acetune.reproduce.live_studies import Studies
from acetune.reproduce.measuring import SEARCHERS_WITH_START
from acetune.reproduce.paper import START
from acetune.result import StudyResult
from acetune.study import tune
from acetune.tasks.credit import Array, CreditModel, CreditTask
from acetune.trial import Trial


def run_pending(
    plan: LivePlan,
    credit: CreditTask,
    studies: Studies,
    on_study: Callable[[LiveCase, StudyResult], None] = lambda case, result: None,
) -> bool:
    """Run the studies of the plan that are not whole yet; False if the user interrupts.

    A study that was cut off is begun anew: resumed, it would have started its workers twice within
    one budget, and gone on with other configurations than its seed gives.
    """
    for case in plan.cases():
        if studies.whole(case):
            continue
        result = _run(case, plan, credit, studies.begin(case))
        if not studies.keep(case):
            return False
        on_study(case, result)
    return True


def _run(case: LiveCase, plan: LivePlan, credit: CreditTask, study: Path) -> StudyResult:
    task = LeanCredit(credit)
    return tune(
        task.train,
        credit.space,
        objective="auc",
        mode="max",
        constraints=[Constraint("eod", upper=case.limit, check=credit.check)],
        policy=case.policy,
        searcher=case.searcher,
        points=[dict(START)] if case.searcher in SEARCHERS_WITH_START else [],
        keep_models=1,
        time_budget_s=plan.budget_s,
        workers=plan.workers,
        threads=1,
        engine=plan.engine,
        seed=case.seed,
        study=study,
        progress=False,
    )


@dataclass(frozen=True, slots=True)
class ScoredCheckpoint:
    """What is kept of a checkpoint: its scores on the selection rows, enough to check it."""

    rounds: int
    scores: Array


class LeanCredit:
    """The credit task with scores for models.

    Nobody asks for the models here, and writing out thousands of trees at every better checkpoint
    would take more time than training does: time that the paper's experiment does not have in it.
    """

    def __init__(self, credit: CreditTask) -> None:
        self._credit = credit

    def train(self, trial: Trial) -> None:
        """Train as the task does."""
        self._credit.train(cast(Trial, _LeanTrial(trial)))


class _LeanTrial:
    """A trial as the task's training function uses it, which reports scores for models."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.params, self.threads = trial.params, trial.threads

    def steps(self, total_steps: int) -> Iterator[int]:
        return self._trial.steps(total_steps)

    def report(self, *, model: CreditModel, **reported: Any) -> Decision:
        kept = ScoredCheckpoint(model.rounds, model.scores)
        return self._trial.report(model=kept, **reported)
