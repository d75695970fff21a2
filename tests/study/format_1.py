"""What the study in ``data/format-1.db`` was made with, by a version that wrote format 1."""

from __future__ import annotations

from acetune import ACE, Constraint, Trial

POLICY = ACE(truncation=0, interval=1, gate=False)
LIMIT = Constraint("g", upper=2, check=lambda model: model["g"])


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
