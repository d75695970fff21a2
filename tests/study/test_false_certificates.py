"""How often a whole study issues a certificate that is false, whatever happens to it.

Only fresh data and the wish to see a certificate are simulated; the study file, the looks and the
account are the real ones. All models lie exactly on their limit, so that every certificate is
false, and each test errs with just the probability that it is given.
"""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acetune import ACE, Constraint, Estimate
from acetune.certification.account import Account
from acetune.core.goals import goals_from_json
from acetune.policies.stopper import stopper_of
from acetune.run._confirmation import confirm_best
from acetune.run._messages import Evaluate, Evaluated
from acetune.study.coordinator import StudyCoordinator
from acetune.study.result import load
from acetune.study.store import Store
from run.helpers import Events, by_hand, g_of, tune

CONFIDENCE, STUDIES, SESSIONS = 0.5, 60, 6
TABLE = [[(4.0, 0.9)], [(3.0, 1.2)], [(2.0, 1.5)], [(1.0, 1.8)]]


def measured(model: tuple[int, int, float]) -> Estimate:
    return Estimate(g_of(model), 0.2)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose search is over."""
    study = tmp_path_factory.mktemp("begun") / "study.db"
    limits = [Constraint("g", upper=2, check=measured, margin_se=0)]
    policy = ACE(truncation=0, interval=1, gate=False)
    options = {"xs": range(4), "keep_models": 4, "confidence": CONFIDENCE, "confirm_top": 4}
    tune(by_hand(TABLE), study, constraints=limits, policy=policy, **options)
    return study


class Fresh:
    """Fresh rows by their names. What a model has on them is drawn once, and stays."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.drawn: dict[tuple[str | None, str], float] = {}

    def value(self, rows: str | None, model: str) -> float:
        return self.drawn.setdefault((rows, model), self.rng.gauss(2.0, 1.0))


def answers(fresh: Fresh, rows: str | None, tricks: bool) -> Callable[..., Any]:
    """``confirm`` on these rows; with ``tricks`` it goes wrong, often just where a limit breaks."""

    def evaluate(tasks: Sequence[Evaluate]) -> Iterator[Evaluated | None]:
        for task in tasks:
            value, chance = fresh.value(rows, Path(task.path).parts[-3]), fresh.rng.random()
            if tricks and value > 0.5 and chance < 0.5:
                yield Evaluated({}, {}, "ValueError: not what I had hoped for")
            elif tricks and chance > 0.95:
                yield None  # the user interrupts it
            else:
                yield Evaluated({"g": Estimate(value, 1.0)}, {})

    return evaluate


def one_study(study: Path, seed: int, tricks: bool, names: Sequence[str | None]) -> bool:
    """Whether it has ever had a certificate, resumed until it has one or nobody goes on."""
    fresh = Fresh(random.Random(seed))
    for session in range(SESSIONS):
        rows = names[session % len(names)]
        evaluate = answers(fresh, rows, tricks)
        driver: Any = SimpleNamespace(evaluate=lambda tasks, ask=evaluate: list(ask(tasks)))
        with closing(Store.open(study)) as store:
            known = store.study()
            goals = goals_from_json(known["objective"], known["constraints"])
            coordinator = StudyCoordinator(store, stopper_of(goals, ACE()), 4)
            coordinator.load()
            # only as many candidates at a time as it takes to have others for later
            confirm_best(driver, coordinator, 1 + session % 4, Events(), rows)  # type: ignore[arg-type]
        if load(study).status == "certified":
            return True
    return False


def false_ones(begun: Path, folder: Path, tricks: bool, names: Sequence[str | None]) -> int:
    wrong = 0
    for seed in range(STUDIES):
        study = folder / f"{seed}" / "study.db"
        study.parent.mkdir()
        shutil.copy(begun, study)
        shutil.copytree(f"{begun}.files", f"{study}.files")
        wrong += one_study(study, seed, tricks, names)
        shutil.rmtree(study.parent)
    return wrong


# a study whose false certificates are as frequent as promised exceeds this once in a thousand times
MOST = STUDIES * (1 - CONFIDENCE) + 3.1 * math.sqrt(STUDIES * CONFIDENCE * (1 - CONFIDENCE))


@pytest.mark.parametrize(
    ("names", "tricks"),
    [
        pytest.param([None], True, id="the same rows, with tricks"),
        pytest.param(["May", "June", "July"], False, id="other rows"),
        pytest.param(["May", None, "May", "June"], True, id="both, with tricks"),
    ],
)
def test_no_more_than_promised(
    begun: Path, tmp_path: Path, names: Sequence[str | None], tricks: bool
) -> None:
    assert false_ones(begun, tmp_path, tricks, names) <= MOST


def test_this_test_would_see_it(
    begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks that each spend what the first may spend are found out."""
    monkeypatch.setattr(Account, "level", lambda account, look: 0.75 * (1 - account.confidence))
    assert false_ones(begun, tmp_path, False, ["May", "June", "July"]) > MOST
