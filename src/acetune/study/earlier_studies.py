"""Earlier studies of the same space, as curves that a searcher can begin with.

What is read is judged by the limits of the new study and kept in its file, so that it goes on the
same whatever becomes of the earlier ones.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acetune.core.errors import GoalError, SpaceError, StudyChangedError, StudyError
from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals
from acetune.core.outcome import Curve
from acetune.searchers.space import Space
from acetune.study._code_identity import Identity, changes
from acetune.study.best_checkpoints import losses
from acetune.study.integrity import understanding
from acetune.study.opening import differing
from acetune.study.per_trial import Trials
from acetune.study.reader import StudyView, viewing
from acetune.study.report_arrays import STOP, Array
from acetune.study.store import Store
from acetune.study.table_rows import EarlierTrial

_MOST_TRIALS, _BEST = 2000, 20  # of a study that are kept; the best ones among them
_MOST_REPORTS = _MOST_CHECKS = 64  # of a trial that are kept
# of its steps, where a trial is compared with others; as a searcher looks at them
_SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0)


class _Read(NamedTuple):
    """What was read of one study."""

    trials: list[EarlierTrial]
    left_out: int  # trials that do not lie in the space of now
    digest: str
    fresh: frozenset[str]  # by name or checksum: the fresh rows that it has looked at
    checks: Mapping[str, Any]  # what its checks are made of, by constraint


class EarlierStudies:
    """The studies that a call names to learn from.

    Parameters
    ----------
    files:
        Their study files.
    goals, on_config, space:
        What the new study is about: an earlier one must fit it.
    """

    def __init__(
        self,
        files: Sequence[str | Path],
        goals: Goals,
        on_config: Sequence[Constraint],
        space: Space,
    ) -> None:
        if isinstance(files, (str, Path)) or not isinstance(files, Sequence):
            raise GoalError(
                f"learn_from must be a list of study files, got {files!r}; write "
                'learn_from=["old.db"]'
            )
        for file in files:
            if not isinstance(file, (str, Path)):
                raise GoalError(
                    f"learn_from must be a list of study files, got {file!r} in it; for a result "
                    "of tune() that is result.study"
                )
        self._paths = [Path(file).resolve() for file in files]
        self._goals, self._on_config, self._space = goals, on_config, space
        self._read: dict[Path, _Read] = {}

    def require_fitting(self, study: Path) -> None:
        """An error if a study cannot be learned from, before the file of the new one is made."""
        if study.resolve() in self._paths:
            raise GoalError(
                f"{study} is named in learn_from= and is the study itself, which learns from its "
                "own trials anyway; leave it out"
            )
        if not study.exists():
            for path in self._paths:
                self._reading(path)

    def keep_in(self, store: Store, fresh: str | None = None) -> list[str]:
        """Read what the study file has not got yet, and write it there; returns what to say.

        Also where an earlier study has looked at the ``fresh`` rows of this one.
        """
        known = store.earlier_studies()
        said = []
        for path in self._paths:
            if str(path) in known:  # as it was then, whatever has become of it
                continue
            found = self._reading(path)
            if found.digest in known.values():  # the same file, moved
                continue
            with store.transaction():
                store.add_earlier_study(str(path), found.digest, found.trials)
            known[str(path)] = found.digest
            outside = f"; {found.left_out} outside the space are left out" * bool(found.left_out)
            said.append(f"learns from {len(found.trials)} trials of {path.name}{outside}")
            said += _other_checks(path, found.checks, store)
        return said + ([] if fresh is None else self._look_for(fresh, store))

    def _look_for(self, fresh: str, store: Store) -> list[str]:
        """Say which earlier studies have looked at these rows; the study file keeps it."""
        noted = [
            json.loads(row["what"])
            for row in store.rows("SELECT what FROM check_changes WHERE how = 'fresh'")
        ]
        said = []
        for path in self._paths:
            try:
                used = fresh in self._reading(path).fresh
            except StudyError:  # it is gone, or has become another one
                continue
            if not used:
                continue
            said.append(
                f"{path.name} has looked at the fresh rows of confirm_data= already: rows that "
                "another study has used are not fresh, and a certificate on them is worth less "
                "than it says"
            )
            if [path.name, fresh] not in noted:
                with store.transaction():
                    now = time.time()
                    store.add_check_change("fresh", [path.name, fresh], now, now)
        return said

    def _reading(self, path: Path) -> _Read:
        if path not in self._read:
            with viewing(path) as view:
                _require_same_goals(path, view, self._goals, self._on_config)
                self._read[path] = self._read_trials(path, view)
        return self._read[path]

    def _read_trials(self, path: Path, view: StudyView) -> _Read:
        run = [trial for trial in view.trials if trial.state != "rejected"]
        # a Ray experiment has no space of ours: what its trials were given
        then = view.info["space"] or (dict.fromkeys(run[0].params) if run else {})
        now = self._space.describe()
        if then and set(then) != set(now):
            raise StudyChangedError(_misfit(path, "space", differing(then, now)))
        trials, found, left_out = Trials(view), list[EarlierTrial](), 0
        if len(run) > _MOST_TRIALS:
            spread = np.linspace(0, len(run) - 1, _MOST_TRIALS).round().astype(int).tolist()
            kept = {*trials.ranking[:_BEST], *(run[i].trial for i in spread)}
            run = [trial for trial in run if trial.trial in kept]
        for trial in run:
            rows = trials.curve(trial.trial)
            params = self._in_space(trial.params)
            if len(rows) and params is not None:
                checked = trials.checked(trial.trial)
                curve = self._curve(view, trial.total_steps, params, rows, checked)
                found.append(_written(curve))
            left_out += len(rows) > 0 and params is None
        if not found:
            raise StudyChangedError(self._nothing(path, then, now, left_out))
        text = json.dumps(found)
        fresh = frozenset(look["data"] for look in view.looks if look["data"] is not None)
        checks = json.loads(view.info["code"]).get("checks", {})
        return _Read(found, left_out, hashlib.sha256(text.encode()).hexdigest(), fresh, checks)

    def _curve(
        self,
        view: StudyView,
        total_steps: int | None,
        params: Mapping[str, Any],
        rows: Array,
        checked: Array,
    ) -> Curve:
        reports = view.reports
        step, loss = reports.step[rows], losses(self._goals.objective, reports.objective[rows])
        checks = list(_checks(view, _fewer(view, checked), self._goals))
        kept = _thinned(step, loss, total_steps, checks)
        steps, found = array("q", step[kept].tolist()), array("d", loss[kept].tolist())
        ended = reports.decision[rows[-1]] == STOP or steps[-1] == total_steps
        return Curve(params, total_steps, steps, found, checks, bool(ended))

    def _in_space(self, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """The searched part of a configuration; None where it lies outside the space of now."""
        if any(params.get(name) != value for name, value in self._space.fixed.items()):
            return None
        try:
            return self._space.flatten(params)
        except SpaceError:
            return None

    def _nothing(
        self, path: Path, then: Mapping[str, Any], now: Mapping[str, Any], left_out: int
    ) -> str:
        if not left_out:
            return f"there is nothing to learn from {path}: no trial has reported; leave it out"
        lines = differing(dict(then), dict(now))
        return _misfit(path, "space", [f"none of its {left_out} trials lies in it", *lines])


def kept_curves(store: Store) -> list[Curve]:
    """The earlier trials that a study file holds."""
    with store.understanding():
        return [_as_curve(row) for row in store.earlier_trials()]


def _as_curve(row: EarlierTrial) -> Curve:
    reports, checks = json.loads(row.reports), json.loads(row.checks)
    return Curve(
        json.loads(row.params),
        row.total_steps,
        array("q", [step for step, _ in reports]),
        array("d", [math.inf if loss is None else loss for _, loss in reports]),
        [(step, tuple(math.nan if v is None else v for v in excess)) for step, excess in checks],
        bool(row.ended),
    )


def _written(curve: Curve) -> EarlierTrial:
    """A curve as the file holds it: JSON knows neither NaN nor infinity."""
    finite = [v if math.isfinite(v) else None for v in curve.losses]
    checks = [
        [step, [None if math.isnan(v) else min(max(v, -1e300), 1e300) for v in excess]]
        for step, excess in curve.checks
    ]
    return EarlierTrial(
        json.dumps(curve.params),
        curve.total_steps,
        int(curve.ended),
        json.dumps(list(zip(curve.steps, finite, strict=True))),
        json.dumps(checks),
    )


# -- reading one trial ---------------------------------------------------------------------------


def _checks(view: StudyView, rows: Array, goals: Goals) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Its checks, judged by the current limits: a step, and how far beyond each limit."""
    names = [constraint.name for constraint in view.goals.constraints]
    checks = view.checks
    first, last = (np.searchsorted(checks.row, rows, side=side) for side in ("left", "right"))
    for row, begin, end in zip(rows.tolist(), first.tolist(), last.tolist(), strict=True):
        measured: dict[str, Estimate | FailedCheck] = {}
        for i in range(begin, end):
            value, stderr = float(checks.value[i]), float(checks.stderr[i])
            failed = math.isnan(value)
            measured[names[checks.constraint[i]]] = (
                FailedCheck("failed") if failed else Estimate(value, stderr)
            )
        if len(measured) < len(names) and not goals.violated(measured):
            # the rest was left out as one was violated, which holds by the current limits: of the
            # rest nothing is known, whereas a curve would take it for checks that failed
            continue
        yield int(view.reports.checked_step[row]), goals.relative_excesses(measured)


def _fewer(view: StudyView, checked: Array) -> Array:
    """The rows of its checks that are kept: all, or some where there are many, the best included.

    By the limits of then: those of now tell no more where a trial was checked at nearly every step.
    """
    count, reports = len(checked), view.reports
    if count <= _MOST_CHECKS:
        return checked
    loss = losses(view.goals.objective, reports.checked_objective[checked])
    best = np.lexsort([loss, reports.violation[checked]])[0]
    kept = np.append(np.linspace(0, count - 1, _MOST_CHECKS).round().astype(int), best)
    found: Array = checked[np.unique(kept)]
    return found


def _thinned(
    steps: Array,
    loss: Array,
    total_steps: int | None,
    checks: Sequence[tuple[int, tuple[float, ...]]],
) -> Array:
    """Which of its reports are kept: all, or some where there are many."""
    count = len(steps)
    if count <= _MOST_REPORTS:
        return np.arange(count)
    wanted = np.ceil((total_steps or int(steps[-1])) * np.array(_SHARES))
    wanted = np.append(wanted, [step for step, _ in checks])
    kept: list[Array] = [
        np.linspace(0, count - 1, _MOST_REPORTS).round().astype(int),
        np.minimum(np.searchsorted(steps, wanted), count - 1),
        np.array([np.argmin(loss)]),
    ]
    found: Array = np.unique(np.concatenate(kept))
    return found


# -- what must be the same -----------------------------------------------------------------------


def _require_same_goals(
    path: Path, view: StudyView, goals: Goals, on_config: Sequence[Constraint]
) -> None:
    """An error that names what differs; limits may, for what was measured is judged again."""
    then, now = view.goals.objective, goals.objective
    if then != now:
        pairs = {"name": (then.name, now.name), "mode": (then.mode, now.mode)}
        lines = [f"{what} was {a!r}, now {b!r}" for what, (a, b) in pairs.items() if a != b]
        raise StudyChangedError(_misfit(path, "objective", lines))
    lines = _differing_sides(view.goals.constraints, goals.constraints)
    if lines:
        raise StudyChangedError(_misfit(path, "constraints", lines))
    known = {one["name"]: one for one in view.info["constraints"] if one["on"] == "config"}
    for limit in on_config:
        # what was measured of a configuration is not in the file: there is nothing to judge anew
        was = known.get(limit.name)
        side = "upper" if limit.lower is None else "lower"
        if was is None or side not in was:
            lines.append(f"{limit.describe()} on the configuration is new")
        elif (limit.limit - was[side]) * (1 if side == "upper" else -1) < 0:
            lines.append(f"{limit.name}: limit was {was[side]!r}, now tighter: {limit.limit!r}")
    if lines:
        raise StudyChangedError(_misfit(path, "limits on the configuration", lines))


def _differing_sides(then: Sequence[Constraint], now: Sequence[Constraint]) -> list[str]:
    old, new = ({limit.name: limit.sense for limit in some} for some in (then, now))
    lines = [f"{name} is gone" for name in old if name not in new]
    lines += [f"{name} is new" for name in new if name not in old]
    return lines + [
        f"{name}: limit was {old[name]}, now {new[name]}"
        for name in old
        if name in new and old[name] != new[name]
    ]


def _other_checks(path: Path, then: Mapping[str, Any], store: Store) -> list[str]:
    """What to say where an earlier study has measured a constraint by another check."""
    said = []
    for name, now in json.loads(store.study()["code"]).get("checks", {}).items():
        with understanding(path):
            changed = changes(then[name], Identity(**now)).code if name in then else []
        if changed:
            said.append(
                f"{path.name} has measured {name!r} by another check ({'; '.join(changed[:3])}): "
                "its values are learned from as they are"
            )
    return said


def _misfit(path: Path, what: str, lines: Sequence[str]) -> str:
    differences = "\n".join(f"  {line}" for line in lines)
    verb = "do" if what.startswith(("constraints", "limits")) else "does"
    return (
        f"{path} cannot be learned from: its {what} {verb} not fit this call:\n{differences}\n"
        "Make them the same, or leave the file out of learn_from="
    )
