"""Credit default with LightGBM under a fairness limit: the first experiment of the ACE paper.

Training and checks are those of ``acetune demo``; here are the paper's rows and rounds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from acetune.cli.demo_credit import SEED, CreditTask, lightgbm, made_credit, read_rows
from acetune.core.errors import AcetuneError, MissingExtraError
from acetune.core.goals import Constraint
from acetune.replay.training import Task


def credit_lightgbm(data: Path | None = None, confirm_rows: int = 0) -> Task:
    """The paper's task, on the UCI file; without one, on clients made by code."""
    if data is None:
        if confirm_rows:
            raise AcetuneError(
                "the clients made by code have confirmation rows already, a fifth of all; got "
                f"confirm_rows={confirm_rows}"
            )
        name, credit = "credit-lightgbm-made", replace(made_credit(), confirms_each_round=True)
    else:
        name = "credit-lightgbm-confirm" if confirm_rows else "credit-lightgbm"
        credit = paper_credit(data, confirm_rows=confirm_rows)
    lightgbm()  # say at once if it is missing
    return Task(
        name,
        credit.train,
        credit.space,
        "auc",
        "max",
        (Constraint("eod", upper=0.25, check=credit.check),),
        credit.confirm if len(credit.confirm_rows.y) else None,
        {"auc": 5, "eod": 4, "cost_s": 2},
    )


def paper_credit(path: Path, max_rounds: int = 3000, confirm_rows: int = 0) -> CreditTask:
    """The task as the paper set it up: 70 % to train, 30 % to select by, leaves up to the rows.

    The paper has no rows to confirm on; ``confirm_rows`` are taken from those to train. The rounds
    are bounded below the paper's 21,000, so that a configuration trains in seconds.
    """
    try:
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise MissingExtraError("scikit-learn", "sklearn") from None
    rows, categorical = read_rows(path)
    everyone = np.arange(len(rows.y))
    train, select = train_test_split(everyone, test_size=0.3, random_state=SEED, stratify=rows.y)
    if not 0 <= confirm_rows < len(train):
        raise AcetuneError(
            f"confirm_rows must leave rows to train: between 0 and {len(train) - 1}, "
            f"got {confirm_rows}"
        )
    confirm = train[:confirm_rows]  # in random order already
    return CreditTask(
        rows.take(train[confirm_rows:]),
        rows.take(select),
        rows.take(confirm),
        categorical,
        max_rounds,
        max_leaves=len(train) - confirm_rows,
        confirms_each_round=confirm_rows > 0,
    )
