"""The paper's fairness experiment with real training: its studies, run one after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from acetune.cli.demo_credit import CreditTask
from acetune.core.goals import Constraint
from acetune.run.tuning import tune
from acetune.study.result import StudyResult
from paper.live_plan import LiveCase, LivePlan
from paper.live_studies import Studies
from paper.measuring import SEARCHERS_WITH_START
from paper.published import START


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
    # nobody asks for the models here, and writing out thousands of trees at every better checkpoint
    # would take more time than training does: time that the paper's experiment does not have in it
    task = replace(credit, keeps_trees=False)
    return tune(
        task.train,
        task.space,
        objective="auc",
        mode="max",
        constraints=[Constraint("eod", upper=case.limit, check=task.check)],
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
