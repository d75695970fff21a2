from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import acetune
from acetune import Constraint, Estimate
from acetune.constraints import constraint
from acetune.core.errors import GoalError
from acetune.testing import check_constraint


def test_everything_is_passed_on() -> None:
    @constraint(lower=0.8, name="recall", margin_se=1.5, scale=0.1, timeout_s=3.0)
    def found_share(model: float) -> Estimate:
        return Estimate(model, 0.01)

    assert isinstance(found_share, Constraint)
    assert found_share.check is not None
    assert found_share.check(0.9) == (0.9, 0.01)
    expected = Constraint("recall", lower=0.8, margin_se=1.5, scale=0.1, timeout_s=3.0)
    assert found_share == expected  # which compares neither check nor timeout
    assert found_share.timeout_s == 3.0


def test_it_is_named_after_the_function() -> None:
    @constraint(upper=1)
    def gap(model: object) -> float:
        return 0.5

    assert (gap.name, gap.upper, gap.on) == ("gap", 1, "model")


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(GoalError, match=r"needs a limit: write @constraint\(upper="):

        @constraint  # type: ignore[arg-type]
        def bare(model: object) -> float:
            return 0.0

    with pytest.raises(GoalError, match="'none': give exactly one of upper and lower"):

        @constraint()
        def none(model: object) -> float:
            return 0.0

    with pytest.raises(GoalError, match=r"has no name to take: give constraint\(name="):
        constraint(upper=1)(lambda model: 0.0)
    assert constraint(upper=1, name="zero")(lambda model: 0.0).name == "zero"


MODULE = """
from acetune.constraints import constraint

FACTOR = 2

@constraint(upper=4)
def doubled(model):
    return FACTOR * model
"""


def test_one_defined_in_a_module_travels_to_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the function's name stands for the constraint: it cannot be found by name."""
    (tmp_path / "my_limits.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = importlib.import_module("my_limits").doubled
    again = pickle.loads(cloudpickle.dumps(found))
    assert again == found
    assert again.check(3) == 6
    check_constraint(found, 3)


def tune(train: Any, study: Path, limits: list[Constraint], **options: Any) -> acetune.StudyResult:
    return acetune.tune(
        train,
        {"width": acetune.randint(1, 10), "depth": acetune.randint(1, 10)},
        objective="gain",
        mode="max",
        constraints=limits,
        workers=1,
        seed=0,
        study=study,
        **options,
    )


def test_a_configuration_beyond_its_limit_is_never_trained(study: Path, tmp_path: Path) -> None:
    trained = tmp_path / "trained"

    @constraint(upper=20, on="config")
    def size(params: dict[str, int]) -> int:
        return params["width"] * params["depth"]

    def train(trial: acetune.Trial) -> None:
        width, depth = trial.params["width"], trial.params["depth"]
        with trained.open("a") as file:
            file.write(f"{width * depth}\n")
        trial.report(width + depth)

    result = tune(train, study, [size], max_trials=8)
    sizes = [int(line) for line in trained.read_text().splitlines()]
    assert len(sizes) == 8
    assert max(sizes) <= 20
    assert result.counts["rejected"] > 0  # there were others
    assert result.best is not None
    assert result.best.params["width"] * result.best.params["depth"] <= 20


def test_several_of_both_kinds(study: Path) -> None:
    @constraint(upper=60, on="config")
    def size(params: dict[str, int]) -> int:
        return params["width"] * params["depth"]

    @constraint(lower=3)
    def least(model: tuple[int, int]) -> int:
        return min(model)

    @constraint(upper=12, margin_se=2)
    def total(model: tuple[int, int]) -> Estimate:
        return Estimate(sum(model), 0.5)

    def train(trial: acetune.Trial) -> None:
        model = (trial.params["width"], trial.params["depth"])
        trial.report(max(model), model=model)

    result = tune(train, study, [size, least, total], max_trials=25)
    assert result.best is not None
    found = result.best.constraints
    assert found["least"].value >= 3
    assert found["total"].value + 2 * 0.5 <= 12
    assert result.strata["invalid"] > 0


def test_the_room_opens_on_use() -> None:
    code = (
        "import sys, acetune.constraints as c\n"
        "print('numpy' in sys.modules, callable(c.constraint), 'numpy' in sys.modules)\n"
        "print(c.FairnessCheck.__name__, c.fairness.__name__, c.size.__name__)\n"
        "print(all(hasattr(c, name) for name in c.__all__), set(dir(c)) == set(c.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "False True False",
        "FairnessCheck acetune.constraints.fairness acetune.constraints.size",
        "True True",
    ]
    with pytest.raises(AttributeError, match="has no attribute 'Fairness'"):
        acetune.constraints.Fairness  # type: ignore[attr-defined]  # noqa: B018
