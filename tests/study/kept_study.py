"""What the studies in ``data/`` were made with, each by a version that wrote its format.

``python -m tests.study.kept_study`` makes one of the format of now: run it when there is a new one.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import acetune
from acetune import ACE, Constraint, Trial
from acetune.study._formats import FORMAT

POLICY = ACE(truncation=0, interval=1, gate=False)
LIMIT = Constraint("g", upper=2, check=lambda model: model["g"])
DATA = Path(__file__).with_name("data")


def train(trial: Trial) -> None:
    """Trial 3 fails in its first attempt, after a checkpoint at step 2."""
    x = trial.params["x"]
    for step in trial.steps(3):
        if trial.number == 3 and trial.attempt == 1 and step == 3:
            raise MemoryError("out of memory, say")
        trial.report(
            x + 1 / step,
            model={"x": x, "step": step, "g": 1},
            checkpoint=(lambda folder: (folder / "state").write_text("2")) if step == 2 else None,
        )


def run(study: Path, **options: Any) -> acetune.StudyResult:
    return acetune.tune(
        train,
        {"x": acetune.uniform(0, 9)},
        objective="loss",
        mode="min",
        constraints=[LIMIT],
        policy=POLICY,
        searcher="random",
        seed=0,
        workers=1,
        keep_models=9,
        study=study,
        progress=False,
        **options,
    )


def main() -> None:
    study = DATA / f"format-{FORMAT}.db"
    run(study, max_trials=3, points=[{"x": 2.0}, {"x": 1.0}, {"x": 3.0}])
    with closing(sqlite3.connect(study)) as db:  # without what only this machine has
        db.execute("UPDATE sessions SET host = 'here'")
        db.execute(
            "UPDATE trials SET traceback = 'MemoryError: out of memory, say' WHERE trial = 3"
        )
        db.commit()
        db.execute("VACUUM")
    files = study.with_name(f"{study.name}.files")
    for path in sorted(files.rglob("*"), reverse=True):
        if path.suffix == ".log" or path.name == "log.txt":
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            shutil.rmtree(path)


if __name__ == "__main__":
    main()
