"""``acetune demo``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from acetune.cli.demo_credit import lightgbm, made_credit, read_credit
from acetune.cli.exits import end_with
from acetune.cli.params import PATH
from acetune.cli.report import say_report
from acetune.core.goals import Constraint
from acetune.policies import DEFAULT_POLICY, POLICY_NAMES
from acetune.report.html import write_report
from acetune.run.terminal import summary
from acetune.run.tuning import tune
from acetune.study.result import StudyResult


@click.command()
@click.option("--data", type=PATH, help="The UCI credit file (CSV); made by code by default.")
@click.option("--limit", default=0.25, help="Largest EOD that qualifies.")
@click.option(
    "--margin-se",
    type=float,
    help="Standard errors to keep from the limit; 0 takes EOD as it is. By default as many as make "
    "a certificate likely.",
)
@click.option("--seconds", default=45.0, help="Time budget.")
@click.option(
    "--policy",
    default=DEFAULT_POLICY,
    help=f"When to check and which trials to stop: {', '.join(POLICY_NAMES)}.",
)
@click.option("--workers", type=int, help="Worker processes.")
@click.option("--study", type=PATH, default="demo.db", help="The study file.")
@click.option("--seed", default=20, help="Of the searcher.")
def demo(
    data: Path | None,
    limit: float,
    margin_se: float | None,
    seconds: float,
    policy: str,
    workers: int | None,
    study: Path,
    seed: int,
) -> None:
    """Tune LightGBM on credit data under a fairness limit: about a minute, offline."""
    console = Console()
    lightgbm()  # say at once if it is missing
    task = made_credit() if data is None else read_credit(data)
    for text in (
        f"Credit default: {len(task.train_rows.y)} clients to train, {len(task.select_rows.y)} to "
        f"select by, {len(task.confirm_rows.y)} to confirm on.",
        "Wanted: the LightGBM with the best AUC whose equalised odds difference (EOD) between two "
        f"groups of clients is at most {limit:g}. One feature tells more about one group: good "
        "models are easily unfair.",
    ):
        console.print(text, highlight=False)  # wraps where the terminal ends
    if study.exists():
        console.print(
            f"{study} exists: going on with it; to start again: rm -r {study}*", highlight=False
        )
    result = tune(
        task.train,
        task.space,
        objective="auc",
        mode="max",
        constraints=[
            Constraint(
                "eod",
                upper=limit,
                check=task.check,
                margin_se="auto" if margin_se is None else margin_se,
            )
        ],
        confirm=task.confirm,
        policy=policy,
        points=[{"n_estimators": 50, "num_leaves": 31, "learning_rate": 0.1}],
        workers=workers,
        time_budget_s=seconds,
        seed=seed,
        study=study,
    )
    console.print(summary(result))
    say_report(write_report(study, study.with_suffix(".html")))
    for line in next_steps(result, study, limit):
        console.print(line, highlight=False, soft_wrap=True)
    end_with(result)


def next_steps(result: StudyResult, study: Path, limit: float) -> list[str]:
    """What to try next, given how it went."""
    lines = ["Next:"]
    if result.outcome == "none feasible":
        lines.append(
            "  nothing qualified: more time, --seconds 120, or a looser limit in a study of"
        )
        lines.append("  its own, --limit 0.3 --study loose.db")
    elif result.outcome == "rejected":
        lines.append("  all that was judged broke the limit on fresh data: keep a wider margin,")
        lines.append("  --margin-se 1.6 --study margin.db")
    if result.goals.constraints:
        looser = result.what_if(eod=round(limit * 1.2, 4))
        lines.append(f"  what a looser limit would give, without training: {looser}")
    stopped = result.trials.query("state == 'stopped'")
    if len(stopped):
        lines.append(f"  why a trial was stopped:   acetune explain {study} {stopped.index[-1]}")
    lines.append(f"  the report in a browser:   acetune report {study} --open")
    lines.append(f"  the same, live:            acetune dashboard {study}  (while a study runs)")
    lines.append(f"  the same as data:          acetune show {study} --json")
    lines.append("  without early stopping:    acetune demo --policy none --study none.db")
    return lines
