"""``acetune run FILE.py`` and ``acetune resume STUDY``."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import cloudpickle
from rich.console import Console

from acetune.cli.exits import end_with
from acetune.cli.params import PATH, study_argument, workers_option
from acetune.core.did_you_mean import suggestion
from acetune.core.errors import AcetuneError, GoalError, StudyError
from acetune.core.goals import Constraint
from acetune.replay.judged_table import parse_limit
from acetune.run.terminal import summary
from acetune.run.tuning import OTHER_NAMES, tune
from acetune.study.reader import viewing
from acetune.study.result import StudyResult
from acetune.study.source_signature import is_from_here
from acetune.study.summary import shown

_EXAMPLES = {
    "space": "'space': {'rate': acetune.loguniform(0.01, 1)}",
    "objective": "'objective': 'auc', the metric that train reports",
    "mode": "'mode': 'max', or 'min' where less of the objective is better",
}
_target = click.option(
    "--target", type=float, help="End when a feasible answer has an objective this good."
)
_patience_trials = click.option(
    "--patience-trials",
    type=int,
    help="End after this many trials without a better feasible answer.",
)
_patience_s = click.option(
    "--patience-s", type=float, help="End after this many seconds without a better feasible answer."
)
_on_changed_check = click.option(
    "--on-changed-check",
    type=click.Choice(["refuse", "accept", "measure-again"]),
    help="Where a check was changed since the study was begun: refuse (default); accept, with "
    "values of both; or measure-again, which sets the earlier values aside.",
)
_on_changed_limit = click.option(
    "--on-changed-limit",
    type=click.Choice(["refuse", "judge-again"]),
    help="Where limits were changed since the study was begun: refuse (default); or judge-again: "
    "judge all that was measured by the current limits, and go on.",
)
_durability = click.option(
    "--durability",
    type=click.Choice(["process", "power"]),
    help="What acknowledged reports outlast: process (default), that any process is killed; or "
    "power, a power cut too, which waits for the disk at each report.",
)


@click.command()
@click.argument("file", type=PATH, help="A Python file with train(trial) and STUDY.")
@click.option(
    "--study",
    type=PATH,
    help="The study file; by default the one STUDY names, or FILE with the ending .db.",
)
@click.option(
    "--time-budget-s",
    type=float,
    help="Time budget in seconds, earlier runs of the study included.",
)
@click.option("--max-trials", type=int, help="Number of trials, those of earlier runs included.")
@_target
@_patience_trials
@_patience_s
@workers_option
@_on_changed_check
@_on_changed_limit
@_durability
@click.option(
    "--dry-run",
    is_flag=True,
    help="Try one configuration for two steps, with every check and confirm once: times, and what "
    "is wrong. Nothing is kept.",
)
def run(
    file: Path,
    study: Path | None,
    on_changed_check: str | None,
    on_changed_limit: str | None,
    dry_run: bool,
    **given: Any,  # keywords of tune()
) -> None:
    """Run the study that FILE defines: `train` and `STUDY`, a dict of keywords of tune().

    Run it again and it goes on where it was; options given here count before those of STUDY.

    \b
    import acetune
    def train(trial):
        for step in trial.steps(20):
            ...
            trial.report(auc=..., model=...)
    limit = acetune.Constraint("gap", upper=0.1, check=...)
    STUDY = dict(space={"rate": acetune.loguniform(0.01, 1)},
                 objective="auc", mode="max", constraints=(limit,), max_trials=50)
    """
    train, options = load_file(file)
    options |= {name: value for name, value in given.items() if value is not None}
    _set_changed(options, on_changed_check, on_changed_limit)
    options["study"] = study or options.get("study") or file.with_suffix(".db")
    if options.get("time_budget_s") is None and options.get("max_trials") is None:
        raise GoalError(
            f"STUDY in {file} has no budget: give it 'max_trials': 100, 'time_budget_s': 600, or "
            f"both; or run  acetune run {file} --max-trials 100"
        )
    if dry_run or options.pop("dry_run", False):
        options.pop("dry_run", None)
        click.echo(str(tune(train, dry_run=True, **options)))
        return
    _finish(tune(train, **options))


@click.command()
@study_argument
@click.option(
    "--file",
    type=PATH,
    help="The Python file with train(trial) and STUDY, if it is not where it was.",
)
@click.option(
    "--add-time-s",
    type=click.FloatRange(min=0.0, min_open=True),
    help="Seconds to add to the budget.",
)
@click.option("--add-trials", type=click.IntRange(min=1), help="Trials to add to the budget.")
@_target
@_patience_trials
@_patience_s
@workers_option
@_on_changed_check
@click.option(
    "--yes", is_flag=True, help="Run the file that STUDY names, though it was not made here."
)
@_on_changed_limit
@click.option(
    "--limit",
    multiple=True,
    help="Go on under another limit, with all that was measured judged by it: METRIC<=NUMBER or "
    "METRIC>=NUMBER. May be given several times.",
)
@_durability
def resume(
    study: Path,
    file: Path | None,
    add_time_s: float | None,
    add_trials: int | None,
    target: float | None,
    patience_trials: int | None,
    patience_s: float | None,
    workers: int | None,
    on_changed_check: str | None,
    yes: bool,
    on_changed_limit: str | None,
    limit: tuple[str, ...],
    durability: str | None,
) -> None:
    """Go on with STUDY where it was, perhaps with a larger budget.

    It runs the Python file of the study. A study from elsewhere may name any file: there you are
    asked, or have to say --yes or --file.
    """
    with viewing(study) as view:
        settings, now = dict(view.info["settings"]), _limits(view.info["constraints"])
        earlier = [_limits(change["earlier"]) for change in view.limit_changes]
        done = sum(trial.state != "rejected" for trial in view.trials)
    if settings["max_trials"] is not None:  # what was run already counts, however it was asked for
        settings["max_trials"] = max(settings["max_trials"], done)
    source = file or (Path(settings["source"]) if settings["source"] else None)
    if source is None:
        raise StudyError(
            f"{study} was started from Python, not by 'acetune run': make the same tune() call "
            "again, or name a file that defines train and STUDY with --file (a demo goes on with "
            "'acetune demo --study FILE')"
        )
    if file is None:
        _agree(study, source, settings.get("source_mark"), yes)
    click.echo(f"acetune: running {shown(source)}", err=True)
    train, options = load_file(source)
    for name, more in (("time_budget_s", add_time_s), ("max_trials", add_trials)):
        if settings[name] is not None:
            options[name] = settings[name] + (more or 0)
        elif more:
            raise StudyError(f"{study} has no {name} to add to; it has {_budgets(settings)}")
        else:
            options.pop(name, None)
    ends = {"target": target, "patience_trials": patience_trials, "patience_s": patience_s}
    for name, end in ends.items():
        # as the study was run last, unless something else is asked for
        options[name] = settings.get(name) if end is None else end
    if durability is not None or "durability" in settings:
        options["durability"] = durability or settings["durability"]
    if workers is not None:
        options["workers"] = workers
    _set_changed(options, on_changed_check, on_changed_limit)
    _set_limits(options, limit, earlier, now)
    options["study"] = study
    _finish(tune(train, **options))


def _agree(study: Path, source: Path, mark: object, yes: bool) -> None:
    """Ask before a file is run that only the study names, unless this user has run it before."""
    if yes or is_from_here(str(source), mark):
        return
    where = f"{shown(study)} was not made here, by you and with this version"
    if not sys.stdin.isatty():
        raise StudyError(
            f"{where}, and names {shown(source)} to be run: look at that file, then say --yes, or "
            "name the file to run with --file"
        )
    click.confirm(f"{where}. Run {shown(source)}, which it names?", abort=True)


def _set_changed(options: dict[str, Any], check: str | None, limit: str | None) -> None:
    for name, given in (("on_changed_check", check), ("on_changed_limit", limit)):
        if given is not None:
            options[name] = given.replace("-", "_")


def _limits(described: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The limits of constraints as the study file has them, by name."""
    return {one["name"]: one.get("upper", one.get("lower")) for one in described}


def _set_limits(
    options: dict[str, Any],
    given: Sequence[str],
    earlier: Sequence[Mapping[str, float]],
    now: Mapping[str, float],
) -> None:
    """The limits that are asked for; else those of now, where the file has those of before."""
    listed = options.get("constraints") or ()
    if not (given or earlier) or isinstance(listed, Constraint):  # which tune() refuses
        return
    constraints = {limit.name: limit for limit in listed}
    if {name: float(limit.limit) for name, limit in constraints.items()} in earlier:
        constraints = {name: one.with_limit(now[name]) for name, one in constraints.items()}
        words = ", ".join(limit.describe() for limit in constraints.values())
        if not given:
            click.echo(f"under the limits that the study was run with last: {words}")
    seen: dict[str, str] = {}
    for text in given:
        asked = parse_limit(text)
        if seen.setdefault(asked.name, text) is not text:
            raise GoalError(f"two limits for one constraint: {seen[asked.name]!r} and {text!r}")
        limit = constraints.get(asked.name)
        if limit is None or limit.sense != asked.sense:
            known = ", ".join(one.describe() for one in constraints.values()) or "none"
            raise GoalError(f"--limit {text!r} is none of the study's constraints: {known}")
        constraints[asked.name] = limit.with_limit(asked.limit)
        options["on_changed_limit"] = "judge_again"
    options["constraints"] = list(constraints.values())


def _budgets(settings: dict[str, Any]) -> str:
    known = {name: settings[name] for name in ("time_budget_s", "max_trials")}
    return ", ".join(f"{name}={value}" for name, value in known.items() if value is not None)


class _AsItIs(importlib.machinery.SourceFileLoader):
    """Compiles a file each time, as Python does with a script, and leaves nothing beside it.

    Python tells by time and size whether what it has kept is still that of the file: one that was
    changed twice in a second can be taken for the earlier one.
    """

    def path_stats(self, path: Any) -> Any:
        """See SourceFileLoader: without them nothing is kept, or taken from what was."""
        raise OSError


def load_file(path: Path) -> tuple[Any, dict[str, Any]]:
    """``train`` and ``STUDY`` of a Python file."""
    if not path.is_file():
        raise GoalError(f"there is no file {str(path)!r}")
    path = path.resolve()
    sys.path.insert(0, str(path.parent))  # so that the file can import its neighbours
    if path.suffix != ".py":
        raise GoalError(f"{path} is not a Python file; its name must end in .py")
    loader = _AsItIs(path.stem, str(path))
    spec = importlib.util.spec_from_loader(path.stem, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        loader.exec_module(module)
    except AcetuneError:
        raise
    except Exception as error:
        where = traceback.format_exc(limit=-2).rstrip()
        raise GoalError(f"{path} cannot be loaded ({type(error).__name__})\n{where}") from None
    # workers get the functions themselves: the file may have any name and lie anywhere
    cloudpickle.register_pickle_by_value(module)
    for name in ("train", "STUDY"):
        if not hasattr(module, name):
            raise GoalError(
                f"{path} defines no {name!r}; it needs a function train(trial) and a dict "
                "STUDY with the keywords of acetune.tune"
            )
    if not isinstance(module.STUDY, dict):
        raise GoalError(f"STUDY in {path} must be a dict, got {module.STUDY!r}")
    with contextlib.suppress(AttributeError):  # not every callable takes attributes
        module.train.__acetune_source__ = str(path)  # 'acetune resume' loads it again
    parameters = list(inspect.signature(tune).parameters.values())[1:]
    known = [parameter.name for parameter in parameters]
    for name in module.STUDY:
        if name not in known:
            hint = suggestion(str(name), known, OTHER_NAMES) or f"; tune() has {', '.join(known)}"
            raise GoalError(f"STUDY in {path} has an unknown key {name!r}{hint}")
    for parameter in parameters:
        name = parameter.name
        if parameter.default is parameter.empty and name not in module.STUDY:
            raise GoalError(f"STUDY in {path} has no {name!r}; for example {_EXAMPLES[name]}")
    return module.train, dict(module.STUDY)


def _finish(result: StudyResult) -> None:
    console = Console()
    console.print(summary(result))
    study = shown(result.study)
    if result.interrupted:
        text = f"interrupted; go on with: acetune resume {study}"
        console.print(text, highlight=False, soft_wrap=True)
    else:
        console.print(f"see it: acetune report {study} --open", highlight=False, soft_wrap=True)
        console.print(
            f"again, or as data: acetune show {study} [--json]", highlight=False, markup=False
        )
    end_with(result)
