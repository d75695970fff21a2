"""Input that makes no sense is refused before anything starts: what was given, and the way out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import ACE, ASHA, Constraint, NoStopping, StudyCallback, Trial
from acetune.core.errors import GoalError, SearchError, SpaceError
from run.helpers import SPACE, tune

G = Constraint("g", upper=1, check=lambda model: 0)


def train(trial: Trial) -> None:
    trial.report(1.0)


class Ranged:
    """A check that says what its values can be."""

    def __init__(self, value_range: object) -> None:
        self.value_range = value_range

    def __call__(self, model: object) -> float:
        return 0.0


def limit(name: str = "size", **options: Any) -> Constraint:
    return Constraint(name, upper=1, on="config", check=lambda params: params["x"], **options)


CASES: dict[str, tuple[Callable[[], dict[str, Any]], type[Exception], str]] = {
    # the space
    "empty space": (lambda: {"space": {}}, SpaceError, r"empty.*\{\}.*add for example"),
    "nothing to search": (lambda: {"space": {"x": 3}}, SpaceError, r"nothing to search.*'x': 3"),
    "space as list": (lambda: {"space": ["x"]}, SpaceError, r"must be a dict.*\['x'\]"),
    "dimension as tuple": (
        lambda: {"space": {"x": (0, 1)}},
        SpaceError,
        r"'x'.*\(0, 1\).*acetune.uniform",
    ),
    "bounds swapped": (
        lambda: {"space": {"x": acetune.uniform(2, 1)}},
        SpaceError,
        "lower bound 2 is above the upper bound 1; swap them",
    ),
    "bound NaN": (
        lambda: {"space": {"x": acetune.uniform(0, math.nan)}},
        SpaceError,
        r"uniform\(0, nan\).*nan",
    ),
    "log of 0": (
        lambda: {"space": {"x": acetune.loguniform(0, 1)}},
        SpaceError,
        r"^loguniform\(0, 1\): .*above 0, got 0; take a small one, or uniform\(0, 1\)",
    ),
    "log of integers from 0": (
        lambda: {"space": {"x": acetune.lograndint(0, 9)}},
        SpaceError,
        "above 0, got 0",
    ),
    "half an integer": (
        lambda: {"space": {"x": acetune.randint(0.5, 2)}},  # type: ignore[arg-type]
        SpaceError,
        r"^randint\(0.5, 2\): bounds must be whole numbers",
    ),
    "no options": (lambda: {"space": {"x": acetune.choice([])}}, SpaceError, "at least one.*none"),
    "options as text": (
        lambda: {"space": {"x": acetune.choice("abc")}},
        SpaceError,
        "list of options, got 'abc'",
    ),
    "option that is no scalar": (
        lambda: {"space": {"x": acetune.choice([[1, 2]])}},  # type: ignore[list-item]
        SpaceError,
        r"got \[1, 2\]; give it a name",
    ),
    "point outside": (
        lambda: {"searcher": "random", "points": [{"x": 5000}]},
        SpaceError,
        r"x=5000 lies outside.*1000",
    ),
    "point elsewhere": (
        lambda: {"searcher": "random", "points": [{"y": 1}]},
        SpaceError,
        r"'y' is not searched; the space has \['x'\]",
    ),
    "point as value": (
        lambda: {"searcher": "random", "points": [3]},
        SpaceError,
        "point must be a dict, got 3",
    ),
    "points as dict": (
        lambda: {"searcher": "random", "points": {"x": 1}},
        GoalError,
        r"points must be a list of dicts, got \{'x': 1\}; write points=\[\{",
    ),
    "points for an object": (lambda: {"points": [{"x": 1}]}, GoalError, r"constructor.*'x': 1"),
    # the goals
    "mode misspelt": (
        lambda: {"mode": "maximise"},
        GoalError,
        "got 'maximise'; did you mean 'max'",
    ),
    "mode of another tuner": (
        lambda: {"mode": "minimize"},
        GoalError,
        "'min' or 'max', got 'minimize'; did you mean 'min'",
    ),
    "trials of another tuner": (
        lambda: {"n_trials": 3},
        TypeError,
        r"tune\(\) got .*'n_trials'; did you mean max_trials=100",
    ),
    "trials as text": (
        lambda: {"max_trials": "10"},
        GoalError,
        "max_trials must be a whole number >= 1, got '10'",
    ),
    "trials alone": (lambda: {"trials": 3}, TypeError, "'trials'; did you mean max_trials="),
    "direction": (lambda: {"direction": "max"}, TypeError, "'direction'; did you mean mode="),
    "misspelt": (lambda: {"confirm_tob": 3}, TypeError, "did you mean 'confirm_top'"),
    "max of a constraint": (
        lambda: {"constraints": [Constraint("g", max=1)]},  # type: ignore[call-arg]
        TypeError,
        r"^Constraint\(\) got .*'max'; did you mean upper=0.1",
    ),
    "no objective": (lambda: {"objective": ""}, GoalError, "name of a metric, got ''"),
    "objective as function": (
        lambda: {"objective": max},
        GoalError,
        "name of a metric, got <built",
    ),
    "limit NaN": (
        lambda: {"constraints": [Constraint("g", upper=math.nan)]},
        GoalError,
        "'g': limit must be finite, got nan",
    ),
    "limit as text": (
        lambda: {"constraints": [Constraint("g", upper="0.25")]},  # type: ignore[arg-type]
        GoalError,
        "'g': limit must be a number, got '0.25'",
    ),
    "no limit": (
        lambda: {"constraints": [Constraint("g")]},
        GoalError,
        "'g'.*exactly one of upper and lower, got upper=None, lower=None",
    ),
    "two limits": (
        lambda: {"constraints": [Constraint("g", upper=2, lower=1)]},
        GoalError,
        "upper=2, lower=1; for a band declare two",
    ),
    "margin below 0": (
        lambda: {"constraints": [Constraint("g", upper=2, margin_se=-1)]},
        GoalError,
        "margin_se must be >= 0, got -1",
    ),
    "timeout 0": (
        lambda: {"constraints": [Constraint("g", upper=2, timeout_s=0)]},
        GoalError,
        "timeout_s must be > 0, got 0",
    ),
    "check not callable": (
        lambda: {"constraints": [Constraint("g", upper=2, check=0.3)]},  # type: ignore[arg-type]
        GoalError,
        "check must be callable, got 0.3",
    ),
    "limit on the configuration without check": (
        lambda: {"constraints": [Constraint("g", upper=2, on="config")]},
        GoalError,
        "'g' is on the configuration and needs a check.*check=lambda",
    ),
    "on elsewhere": (
        lambda: {"constraints": [Constraint("g", upper=2, on="data")]},  # type: ignore[arg-type]
        GoalError,
        "'model' or 'config', got 'data'",
    ),
    "constraint twice": (lambda: {"constraints": [G, G]}, GoalError, "'g' is used twice.*own"),
    "constraint named as the objective": (
        lambda: {"constraints": [Constraint("loss", upper=1)]},
        GoalError,
        "'loss' is used twice",
    ),
    "limit on the configuration twice": (
        lambda: {"constraints": [limit(), limit()]},
        GoalError,
        "'size' is used twice",
    ),
    "limit on the configuration named as a constraint": (
        lambda: {"constraints": [G, limit("g")]},
        GoalError,
        "'g' is used twice",
    ),
    "constraint as text": (lambda: {"constraints": ["g<=1"]}, GoalError, "got 'g<=1'"),
    "range of a check that is none": (
        lambda: {"constraints": [replace(G, check=Ranged((1.0, 0.0)))]},
        GoalError,
        r"'g': value_range of its check .* got \(1\.0, 0\.0\)",
    ),
    "range of a check in words": (
        lambda: {"constraints": [replace(G, check=Ranged("0-1"))]},
        GoalError,
        "value_range .* got '0-1'",
    ),
    "constraint not in a list": (lambda: {"constraints": G}, GoalError, r"list.*Constraint\("),
    # the options
    "train not callable": (lambda: {"train": "train.py"}, GoalError, "function.*got 'train.py'"),
    "unknown policy": (
        lambda: {"policy": "acee"},
        GoalError,
        "'acee'; did you mean 'ace'. choose from none.*ace",
    ),
    "policy of another kind": (lambda: {"policy": 3}, GoalError, "policy or its name, got 3"),
    "policy class": (lambda: {"policy": ACE}, GoalError, "policy or its name, got <class"),
    "unknown policy option": (
        lambda: {"policy": "ace:trunk=1"},
        GoalError,
        "'ace' has no option 'trunk'.*truncation",
    ),
    "policy option alone": (lambda: {"policy": "ace:0.5"}, GoalError, "'0.5' must read name=value"),
    "truncation 25": (lambda: {"policy": ACE(truncation=25)}, GoalError, "0 and 1, got 25"),
    "interval 5": (
        lambda: {"policy": ACE(interval=5)},  # type: ignore[arg-type]
        GoalError,
        "'adaptive', 1 or 'end', got 5",
    ),
    "reduction factor 1": (lambda: {"policy": ASHA(reduction_factor=1)}, GoalError, "> 1, got 1"),
    "when": (
        lambda: {"policy": NoStopping(constraints="during")},  # type: ignore[arg-type]
        GoalError,
        "'callback' or 'after', got 'during'",
    ),
    "after the run without a check": (
        lambda: {"policy": "none+after", "constraints": [Constraint("g", upper=1)]},
        GoalError,
        r"'g' needs a check of its own: Constraint\('g', check=...\)",
    ),
    "no searcher": (
        lambda: {"searcher": ["tpe"]},
        GoalError,
        r"unknown searcher \['tpe'\]; choose",
    ),
    "constraints None": (
        lambda: {"constraints": None},
        GoalError,
        "constraints must be a list such as .*, got None; leave it out",
    ),
    "study as a number": (lambda: {"study": 3}, GoalError, "name of a file, .* got 3"),
    "unknown searcher": (
        lambda: {"searcher": "tpee"},
        GoalError,
        r"'tpee'; did you mean 'tpe'\? choose from forest, random, tpe",
    ),
    "no budget": (lambda: {"max_trials": None}, GoalError, "give a budget: time_budget_s=600"),
    "budget as text": (lambda: {"time_budget_s": "600"}, GoalError, "time_budget_s.*got '600'"),
    "budget below 0": (lambda: {"time_budget_s": -1}, GoalError, "time_budget_s.*> 0, got -1"),
    "budget NaN": (lambda: {"time_budget_s": math.nan}, GoalError, "time_budget_s.*got nan"),
    "no trials": (lambda: {"max_trials": 0}, GoalError, "max_trials.*>= 1, got 0"),
    "half a trial": (lambda: {"max_trials": 2.5}, GoalError, "max_trials.*got 2.5"),
    "no workers": (lambda: {"workers": 0}, GoalError, "workers.*>= 1, got 0"),
    "workers as text": (lambda: {"workers": "4"}, GoalError, "workers.*got '4'"),
    "threads True": (lambda: {"threads": True}, GoalError, "threads.*got True"),
    "retries below 0": (lambda: {"retries": -1}, GoalError, "retries.*>= 0, got -1"),
    "no failures allowed": (lambda: {"max_failures": 0}, GoalError, "max_failures.*got 0"),
    "no time to report": (lambda: {"report_timeout_s": 0}, GoalError, "report_timeout_s.*got 0"),
    "endless grace": (lambda: {"stop_grace_s": math.inf}, GoalError, "stop_grace_s.*got inf"),
    "devices as text": (lambda: {"devices": "0,1"}, GoalError, r"list such as \[0, 1\], got '0,1'"),
    "device alone": (lambda: {"devices": 0}, GoalError, r"list such as \[0, 1\], got 0"),
    "confirm not callable": (lambda: {"confirm": True}, GoalError, "confirm.*got True"),
    "train of nothing": (
        lambda: {"train": lambda: None},
        GoalError,
        r"train is called with a trial and nothing else, which <lambda>\(\) does not fit: too many",
    ),
    "train of an option that has to be given": (
        lambda: {"train": lambda trial, *, epochs: None},
        GoalError,
        "train is called.*missing.*'epochs'",
    ),
    "confirm of two": (
        lambda: {"confirm": lambda model, rows: {}},
        GoalError,
        r"confirm is called with a model and nothing else.*missing.*'rows'",
    ),
    "dry run as text": (lambda: {"dry_run": "yes"}, GoalError, "dry_run must be True or False"),
    "progress as text": (lambda: {"progress": "no"}, GoalError, "progress must be True or False"),
    "callback alone": (
        lambda: {"callbacks": StudyCallback()},
        GoalError,
        r"callbacks must be a list, such as \[MyCallback\(\)\]",
    ),
    "callback of another kind": (lambda: {"callbacks": [3]}, GoalError, "StudyCallback, got 3"),
    "callback as a class": (
        lambda: {"callbacks": [StudyCallback]},
        GoalError,
        "StudyCallback.*a class; write it with parentheses",
    ),
    "rows of no confirm": (
        lambda: {"confirm_data": "held-out"},
        GoalError,
        "confirm_data= says which rows .* no confirm= was given",
    ),
    "nothing to confirm": (lambda: {"confirm_top": 0}, GoalError, "confirm_top.*>= 1, got 0"),
    "nothing to keep": (lambda: {"keep_models": 0}, GoalError, "keep_models.*>= 1, got 0"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_before_anything_starts(tmp_path: Path, case: str) -> None:
    options, error, message = CASES[case]
    with pytest.raises(error, match=message):
        given: dict[str, Any] = {"train": train, "study": tmp_path / "study.db"}
        tune(**(given | options()))
    assert not list(tmp_path.iterdir())


def test_a_limit_on_the_configuration_that_gives_no_number(tmp_path: Path) -> None:
    broken = Constraint("size", upper=1, on="config", check=lambda params: math.nan)
    with pytest.raises(GoalError, match=r"'size' is nan for the configuration \{'x': 0.0\}"):
        tune(train, tmp_path / "study.db", constraints=[broken])


def test_a_limit_on_the_configuration_that_says_whether_it_holds(tmp_path: Path) -> None:
    broken = Constraint("size", upper=1, on="config", check=lambda params: params["x"] < 1)
    with pytest.raises(GoalError, match=r"'size' must be a number, got True.*\{'x': 0.0\}"):
        tune(train, tmp_path / "study.db", constraints=[broken])


def test_a_limit_on_the_configuration_with_an_optional_parameter_gets_it(tmp_path: Path) -> None:
    wide = Constraint("size", upper=1, on="config", check=lambda params=None: params["x"])
    result = tune(train, tmp_path / "study.db", xs=[7, 0], max_trials=1, constraints=[wide])
    assert result.counts == {"finished": 1, "rejected": 1}


def test_a_limit_on_the_configuration_that_nothing_satisfies(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match=r"1000 suggestions.*size <= 1 with 7.*widen"):
        tune(train, tmp_path / "study.db", xs=[7], constraints=[limit()])


def test_the_space_of_the_tests_is_fine(tmp_path: Path) -> None:
    assert tune(train, tmp_path / "study.db", space=SPACE).counts == {"finished": 1}
