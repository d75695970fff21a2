"""The rows of a synthetic study: see :mod:`synthetic_study`."""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from acetune.core.cost import best_interval
from acetune.core.goals import Constraint, Goals, Mode, Objective
from acetune.core.reason import INTERRUPTED, LAST_STEP, Reason, Wording, stated
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies import ACE
from acetune.policies._ranking import WORST
from acetune.trial.artifacts import kept_name

BEGAN = 1_790_000_000.0  # 2026-09-21, when every synthetic study begins
WORKERS = 8
TRUNCATION = 0.25
HOSTILE = "</script><script>window.injected = 1</script><img src=x onerror='window.injected = 1'>"
_LONG = "<b>" + "x" * 9_990 + "&lt;"
_STRATA = np.array(["unchecked", "invalid", "valid"])


def params_of(space: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """One configuration."""
    params: dict[str, Any] = {}
    for name, dimension in space.items():
        if "choice" in dimension:
            params[name] = dimension["choice"][int(rng.integers(len(dimension["choice"])))]
            continue
        low, high = dimension.get("float") or dimension["integer"]
        if dimension["log"]:
            value = float(np.exp(rng.uniform(np.log(low), np.log(high))))
        else:
            value = float(rng.uniform(low, high))
        params[name] = value if "float" in dimension else round(value)
    return params


@dataclass(frozen=True)
class _Limit:
    """How a constraint's values are made: from ``start`` towards ``start + reach * quality``."""

    constraint: Constraint
    start: float
    reach: float
    noise: float
    cost_s: float


class Rows:
    """The columns of a study: one array a column of ``reports``, in the order of seq."""

    def __init__(
        self,
        rng: np.random.Generator,
        trials: int,
        reports: int,
        mode: Mode,
        constraints: int,
        feasible: bool,
        running: int,
        hostile: bool,
    ) -> None:
        self._rng, self._hostile = rng, hostile
        self._limits = _limits(constraints, feasible, hostile)
        name = ("auc" if mode == "max" else "loss") + (HOSTILE if hostile else "")
        self.goals = Goals(Objective(name, mode), tuple(x.constraint for x in self._limits))
        self.space = _space(hostile)
        self._sign = 1.0 if mode == "max" else -1.0
        self._running = running
        self._wordings: dict[str, Wording] = {}
        self._make_segments(trials, reports, running)
        self._make_reports()
        self._make_checks()
        self._make_ranks()

    # -- one row an attempt ----------------------------------------------------------------------

    def _make_segments(self, trials: int, reports: int, running: int) -> None:
        rng = self._rng
        rejected = rng.choice(np.arange(2, trials + 1), trials // 100, replace=False)
        trained = np.setdiff1d(np.arange(1, trials + 1), rejected)
        again = np.sort(rng.choice(trained, len(trained) // 40, replace=False))
        self.rejected = rejected
        self.trial = np.sort(np.concatenate([trained, again]))
        n = len(self.trial)
        if reports < n:
            raise ValueError(f"reports must be at least {n} for {trials} trials, got {reports}")
        first = np.append(self.trial[1:] == self.trial[:-1], False)  # an attempt that was lost
        self.attempt = 1 + np.append(False, self.trial[1:] == self.trial[:-1]).astype(np.int64)
        weight = rng.gamma(1.5, size=n) * np.where(first, 0.3, 1.0) + 1e-3
        cuts = np.floor(np.cumsum(weight) / weight.sum() * (reports - n)).astype(np.int64)
        cuts[-1] = reports - n
        self.length = 1 + np.diff(cuts, prepend=0)
        draw = rng.random(n)
        ends = np.where(draw < 0.42, "finished", np.where(draw < 0.98, "stopped", "failed"))
        self.state = ends.astype("U11")  # as long as the longest of them
        self.state[first] = "interrupted"
        if running:
            self.state[-running:] = "running"
        longer = np.ceil(self.length * rng.uniform(1.5, 5.0, n)).astype(np.int64)
        self.total = np.where(self.state == "finished", self.length, longer)
        self.params = [params_of(self.space, rng) for _ in range(n)]
        learned = np.flatnonzero(rng.random(n) < 0.8 * np.arange(n) / n)  # as a searcher learns
        for i, rate in zip(learned, rng.normal(-2.2, 0.4, len(learned)).tolist(), strict=True):
            self.params[i]["lr"] = min(max(10.0**rate, 1e-4), 1.0)
        for i in np.flatnonzero(self.attempt > 1):
            self.params[i] = self.params[i - 1]
        rate = np.log10([p["lr"] for p in self.params])
        drop = np.array([p["dropout"] for p in self.params])
        deep = np.array([p["layers"] for p in self.params])
        quality = np.exp(-((rate + 2.2) ** 2)) * (1 - 0.5 * drop) * (0.7 + 0.04 * deep)
        wide = np.log([p["width"] / 16 for p in self.params]) / np.log(32)
        self.harm = 0.75 + 0.4 * wide + 0.03 * rng.standard_normal(n)  # wide models break limits
        self.quality = np.clip(quality + 0.05 * rng.standard_normal(n), 0.0, 1.0)
        self.ratio = rng.lognormal(np.log(2.0), 1.2, n)
        chosen = zip(self.ratio.tolist(), self.total.tolist(), strict=True)
        self.interval = np.array([best_interval(TRUNCATION, r, T) for r, T in chosen])
        self.cost = rng.lognormal(np.log(0.5), 0.4, n)

    def trial_rows(self) -> list[tuple[Any, ...]]:
        """The table ``trials``."""
        rows: list[tuple[Any, ...]] = []
        for i in range(len(self.trial)):
            state, ended = str(self.state[i]), float(self.ended[i])
            traceback = None
            if state == "failed":
                reason = "RuntimeError: out of memory"
                if self._hostile:
                    reason = f"RuntimeError: {HOSTILE}\n\"quoted\" 'too' \\ {_LONG}"
                traceback = f"Traceback (most recent call last):\n  ...\n{reason}\n"
            else:
                reason = ""
            rows.append(
                (int(self.trial[i]), int(self.attempt[i]), json.dumps(self.params[i]),
                 int(self.total[i]), int(self.interval[i]), float(self.ratio[i]), 0, state,
                 traceback, 0.2, float(self.started[i]), None if state == "running" else ended,
                 *self._why(i, state, reason), *self._schedule(i))
            )  # fmt: skip
        for trial in self.rejected:
            params = json.dumps(params_of(self.space, self._rng))
            now = float(BEGAN + trial)
            reason = "width 512 breaks its limit <= 256"
            why = self._coded(stated("limit", reason))
            rows.append((int(trial), 1, params, None, None, None, 0, "rejected", None, None,
                         now, now, *why, "", "{}"))  # fmt: skip
        return rows

    def wording_rows(self) -> list[tuple[str, ...]]:
        """The table ``wordings``: after that of trials."""
        return [tuple(wording) for wording in self._wordings.values()]

    def _coded(self, reason: Reason) -> tuple[str, str]:
        self._wordings[reason.code] = reason.wording
        return reason.code, json.dumps(dict(reason.numbers))

    def _why(self, i: int, state: str, text: str) -> tuple[str, str]:
        if state == "stopped" and i in self.stopped_because:
            return self._coded(Reason(WORST, self.stopped_because[i]))
        if state == "finished":
            return self._coded(LAST_STEP)
        if state == "interrupted":
            return self._coded(stated("driver_ended", "its driver process was ended"))
        return self._coded(stated("failed", text)) if text else ("", "{}")

    def _schedule(self, i: int) -> tuple[str, str]:
        progress = Progress(total_steps=int(self.total[i]), interval=int(self.interval[i]))
        record = TrialRecord("any", progress=progress, cost_ratio=float(self.ratio[i]))
        return self._coded(ACE(truncation=TRUNCATION).schedule(record))

    # -- one row a report ------------------------------------------------------------------------

    def _make_reports(self) -> None:
        rng, length = self._rng, self.length
        free = [BEGAN] * WORKERS
        self.started = np.empty(len(length))
        for i, seconds in enumerate((length * self.cost).tolist()):  # whoever is free comes first
            self.started[i] = heapq.heappop(free) + 0.3
            heapq.heappush(free, self.started[i] + seconds)
        self.ended = self.started + length * self.cost
        segment = np.repeat(np.arange(len(length)), length)
        step = np.arange(len(segment)) - np.repeat(np.cumsum(length) - length, length) + 1
        time = self.started[segment] + step * self.cost[segment]
        order = np.argsort(time, kind="stable")
        self.segment, self.step, self.time = segment[order], step[order], time[order]
        self.seconds = float(self.time[-1] - BEGAN)
        learnt = 1 - np.exp(-4 * self.step / np.maximum(self.total[self.segment], 4))
        n, quality = len(learnt), self.quality[self.segment]
        value = 0.5 + 0.4 * quality * learnt + 0.004 * rng.standard_normal(n)
        self.objective = value if self._sign > 0 else 1 - value
        self.objective[rng.random(n) < 0.001] = np.nan
        self.learnt = learnt
        self.last = self.step == length[self.segment]
        # a trial that is checked at its end keeps a copy of its best checkpoint
        kept = (self.interval[self.segment] > 1) & (rng.random(n) < 4 / self.step)
        self.snapshot = np.where(kept, 0.001, 0.0)
        self.primary = 0.8 * self.cost[self.segment] * rng.lognormal(0, 0.1, n)

    def _make_checks(self) -> None:
        rng, n = self._rng, len(self.step)
        loss = -self._sign * self.objective
        ends = self.last & (self.state[self.segment] == "finished")
        due = np.where(self.interval[self.segment] == 1, True, ends) & np.isfinite(loss)
        failed = np.full(n, -1)  # the constraint whose check gave no number
        violation = np.zeros(n)
        self.values, self.errors = [], []
        for i, limit in enumerate(self._limits):
            c = limit.constraint
            reach = limit.reach * (self.quality * self.harm)[self.segment]
            value = limit.start + reach * self.learnt
            value = value + limit.noise * rng.standard_normal(n)
            error = np.full(n, limit.noise * 0.5)
            margin = c.margin_se * error
            excess = value + margin - c.limit if c.lower is None else c.limit - value + margin
            violation += np.maximum(excess, 0) / abs(c.limit)
            failed[(failed < 0) & (rng.random(n) < 0.002)] = i
            self.values.append(value)
            self.errors.append(error)
        violation[failed >= 0] = np.inf
        # the gate: only what beats the best feasible objective so far is worth a check
        good = np.where(due & (violation == 0), loss, np.inf)
        best = np.append(np.inf, np.minimum.accumulate(good)[:-1])
        checked = due & (loss < best)
        if not self._limits:  # then every report is valid
            checked, violation = np.isfinite(loss), np.zeros(n)
        self.checked, self.failed = checked, failed
        self.violation = violation
        self.stratum = np.where(~checked, 0, np.where(violation == 0, 2, 1))

    def _make_ranks(self) -> None:
        key = self.step * 4 + self.stratum
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        counts = np.diff(np.append(starts, len(order)))
        of = np.empty(len(order), np.int64)
        of[order] = np.arange(len(order)) - np.repeat(starts, counts) + 1
        stop = self.last & (self.state[self.segment] == "stopped")
        of[stop] = np.maximum(of[stop], 4)
        cut = np.floor(of * TRUNCATION).astype(np.int64)
        draw = self._rng.random(len(of))
        rank = 1 + np.floor(draw * np.maximum(of - cut, 1)).astype(np.int64)
        rank[stop] = (of - np.floor(draw * np.maximum(cut, 1)).astype(np.int64))[stop]
        self.rank, self.of, self.stop = rank, of, stop
        self.stopped_because = {
            int(self.segment[i]): {
                "rank": int(rank[i]),
                "of": int(of[i]),
                "stratum": _STRATA[self.stratum[i]],
                "step": int(self.step[i]),
                "share": TRUNCATION,
            }
            for i in np.flatnonzero(stop)
        }

    def report_rows(self) -> Any:
        """The table ``reports``."""
        n = len(self.step)
        ended = self.last & (self.state[self.segment] == "finished")
        decision = np.where(self.stop, "stop", np.where(ended, "finish", "continue"))
        checked = self.checked
        return zip(
            range(1, n + 1),
            self.trial[self.segment].tolist(),
            self.attempt[self.segment].tolist(),
            ["step"] * n,
            self.step.tolist(),
            self.objective.tolist(),  # SQLite writes NaN as NULL
            _where(checked, self.step),
            _where(checked, self.objective),
            _where(checked, self.violation),
            _STRATA[self.stratum].tolist(),
            self.rank.tolist(),
            self.of.tolist(),
            decision.tolist(),
            self.primary.tolist(),
            self.snapshot.tolist(),
            self.time.tolist(),
            [None] * n,
            strict=True,
        )

    def check_rows(self) -> Any:
        """The table ``checks``: constraints are evaluated in order, until one fails."""
        error = "ValueError: one group has no members"
        if self._hostile:
            error = f"ValueError: {HOSTILE} {_LONG}"
        for i, limit in enumerate(self._limits):
            name, values, errors = limit.constraint.name, self.values[i], self.errors[i]
            margin = limit.constraint.margin_se
            at = np.flatnonzero(self.checked & ((self.failed < 0) | (self.failed >= i)))
            cost = limit.cost_s * self._rng.lognormal(0, 0.2, len(at))
            for row, seconds in zip(at.tolist(), cost.tolist(), strict=True):
                if self.failed[row] == i:
                    yield row + 1, name, None, None, seconds, error, margin
                else:
                    measured = float(values[row]), float(errors[row])
                    yield row + 1, name, *measured, seconds, None, margin

    # -- the rest --------------------------------------------------------------------------------

    def session_rows(self) -> list[tuple[Any, ...]]:
        """The table ``sessions``: interrupted once, then run to its end."""
        half = self.seconds / 2
        end = (None, "{}")
        if not self._running:
            end = self._coded(stated("all_done", "all trials are done"))
        return [
            (1, BEGAN, "host-a", half, half, *self._coded(INTERRUPTED)),
            (2, BEGAN + half, "host-a", half, half, *end),
        ]

    def best_found(self) -> list[int]:
        """Rows of the best valid checkpoints, one a trial, best first."""
        valid = np.flatnonzero(self.stratum == 2)
        order = valid[np.argsort(-self._sign * self.objective[valid], kind="stable")]
        seen: dict[int, int] = {}
        for row in order.tolist():
            seen.setdefault(int(self.trial[self.segment[row]]), row)
            if len(seen) == 3:
                break
        return list(seen.values())

    def model_rows(self, found: list[int]) -> list[tuple[Any, ...]]:
        """The table ``checkpoints``, of models of 4,096 bytes."""
        rows = []
        for row in found:
            trial, attempt, step = self._place(row)
            key = trial, attempt, step, "model"
            rows.append((*key, kept_name(*key), 4_096, None))
        return rows

    def uses(self, found: list[int]) -> list[tuple[Any, ...]]:
        """The table ``confirmations``: the best one breaks a limit, the second holds."""
        rows: list[tuple[Any, ...]] = []
        if self._running:  # confirmation comes at the end
            return rows
        for use, row in enumerate(found[:2], start=1):
            metrics: dict[str, tuple[float, float]] = {
                self.goals.objective.name: (float(self.objective[row]) - 0.002 * self._sign, 0.003)
            }
            for i, c in enumerate(self.goals.constraints):
                beyond = 1.1 if use == 1 else 0.95
                value = c.limit * (beyond if c.lower is None else 2 - beyond)
                metrics[c.name] = (value, float(self.errors[i][row]))
            status = "broken" if use == 1 and self.goals.constraints else "holds"
            time = BEGAN + self.seconds + use
            rows.append((use, *self._place(row), status, json.dumps(metrics), None, time, 1, "{}"))
        return rows

    def _place(self, row: int) -> tuple[int, int, int]:
        segment = self.segment[row]
        return int(self.trial[segment]), int(self.attempt[segment]), int(self.step[row])


def _where(mask: Any, values: Any) -> list[Any]:
    """Values where the mask holds, None elsewhere."""
    found = values.astype(object)
    found[~mask] = None
    return found.tolist()  # type: ignore[no-any-return]


def _limits(count: int, feasible: bool, hostile: bool) -> list[_Limit]:
    if not 0 <= count <= 3:
        raise ValueError(f"constraints must be 0 to 3, got {count}")
    tight = 1.0 if feasible else 0.1
    gap = Constraint("gap" + (HOSTILE if hostile else ""), upper=0.1 * tight, margin_se=1.0)
    latency = Constraint("p95_ms", upper=5.0 * tight)
    recall = Constraint("recall", lower=0.6 if feasible else 6.0)
    return [
        _Limit(gap, 0.03, 0.22, 0.006, 0.15),
        _Limit(latency, 3.0, 3.5, 0.2, 0.05),
        _Limit(recall, 0.55, 0.4, 0.02, 0.01),
    ][:count]


def _space(hostile: bool) -> dict[str, Any]:
    space: dict[str, Any] = {
        "lr": {"float": [1e-4, 1.0], "log": True},
        "dropout": {"float": [0.0, 0.6], "log": False},
        "layers": {"integer": [1, 8], "log": False},
        "width": {"integer": [16, 512], "log": True},
        "activation": {"choice": ["relu", "gelu", "tanh"]},
        "batch_norm": {"choice": [True, False]},
        "decay": {"choice": [None, 1e-4, 1e-2]},
    }
    if hostile:
        space[HOSTILE] = {"choice": [HOSTILE, "a \"quoted\" & 'quoted' line\nbreak \\", _LONG, ""]}
        space["__proto__"] = {"choice": ["constructor", "{{7*7}}", "\u202eright to left"]}
    return space
