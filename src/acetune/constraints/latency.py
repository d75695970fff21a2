"""Latency as a constraint: how long a call takes, measured alone."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acetune.certification.evidence import Evidence, Measured, Quantile, Refused, another_kind
from acetune.constraints import _reserved_device as _reserved
from acetune.core.errors import GoalError, ReportError
from acetune.core.goals import Estimate
from acetune.core.numbers import require_whole
from acetune.trial.exclusive import alone
from acetune.trial.hardware import describe_hardware, physical_gpu, synchroniser

__all__ = ["LatencyCheck", "LatencyProfile", "measure_latency"]

SPELL = 20  # calls in a row that a machine may be slow for, where nobody has said better
_WIDTH = 8.0  # standard deviations of a rank: what lies further away weighs nothing


@dataclass(frozen=True, slots=True, eq=False)  # arrays do not compare as one
class LatencyProfile:
    """How long a call took, many times over, in milliseconds.

    Attributes
    ----------
    times_ms:
        The time of each call, from the shortest.
    hardware:
        What it was measured on, in words.
    calls_ms:
        The times in the order of the calls, where it is known.
    spell_calls:
        For how many calls in a row the machine may be slow: see :class:`LatencyCheck`.

    >>> profile = LatencyProfile(np.array([1.0, 1.0, 2.0, 9.0]), "a machine")
    >>> profile.p50.value, profile.p99.value, profile.repeats
    (1.0, 9.0, 4)
    """

    times_ms: NDArray[np.float64] = field(repr=False)
    hardware: str
    calls_ms: NDArray[np.float64] | None = field(default=None, repr=False)
    spell_calls: int = SPELL

    @property
    def repeats(self) -> int:
        """How many calls were timed."""
        return len(self.times_ms)

    @property
    def p50(self) -> Estimate:
        """The median, with its standard error."""
        return self.percentile(50)

    @property
    def p95(self) -> Estimate:
        """What 95 % of the calls stay within."""
        return self.percentile(95)

    @property
    def p99(self) -> Estimate:
        """What 99 % of the calls stay within: it takes some hundred calls to say that."""
        return self.percentile(99)

    def percentile(self, percentile: float) -> Estimate:
        """Any percentile, with its standard error."""
        return Measured(*quantile(self.times_ms, percentile / 100), self._evidence(percentile))

    def _evidence(self, percentile: float) -> Evidence:
        """All calls, so many in a row counted as one that such blocks are nearly independent."""
        if self.calls_ms is None:
            return Refused(
                "the order of the calls is not known, so neither is how they depend on each other: "
                "give LatencyProfile(..., calls_ms=...)"
            )
        share = 1 - percentile / 100
        block = block_of(self.calls_ms, share, self.spell_calls)
        return Quantile(tuple(self.calls_ms.tolist()), share, self.hardware, block)

    def __str__(self) -> str:
        shown = ", ".join(
            f"p{name} {found.value:.4g} ± {found.stderr:.2g}"
            for name, found in ((50, self.p50), (95, self.p95), (99, self.p99))
        )
        return f"{shown} ms ({self.repeats} calls on {self.hardware})"


def measure_latency(
    call: Callable[[], object],
    *,
    warmup: int = 10,
    repeats: int = 200,
    clock: Callable[[], float] = time.perf_counter,
) -> LatencyProfile:
    """Time a call many times, after some that do not count.

    A GPU that PyTorch uses is waited for before and after each call; with another framework the
    call must itself wait for its result. Python's garbage collector does not run meanwhile. Nobody
    else is kept from using the machine: for that there is :class:`LatencyCheck`.

    Parameters
    ----------
    call:
        What to time.
    warmup, repeats:
        How many calls are made before, and how many are timed.
    clock:
        Seconds.

    >>> profile = measure_latency(lambda: sum(range(1000)), repeats=50)
    >>> 0 < profile.p50.value <= profile.p95.value <= profile.p99.value
    True
    """
    _require_calls(warmup, repeats)
    for _ in range(warmup):
        call()
    synchronise = synchroniser()  # only now: the first calls may have taken the GPU
    times = np.empty(repeats)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for index in range(repeats):
            synchronise()
            began = clock()
            result = call()
            synchronise()
            times[index] = clock() - began
            del result  # what it takes to free it is no latency
    finally:
        if collecting:
            gc.enable()
    if not (np.isfinite(times).all() and times.min() >= 0.0):
        raise ReportError(
            f"a call took {times[~(times >= 0.0)][:1]} s by this clock, which must run forwards: "
            "give one such as time.perf_counter"
        )
    return LatencyProfile(np.sort(times) * 1e3, describe_hardware(), times * 1e3)


class LatencyCheck:
    """A check for :class:`~acetune.Constraint`: a percentile of how long a call takes, in ms.

    It is measured alone: the other trials on the device wait at their next report until it is done,
    those of other studies on this machine with such a check too. Or give a device that is set
    ``aside``, where no trial runs: then nobody waits. A checkpoint that would become the best is
    measured twice, and the second time counts: of many noisy measurements the luckiest would win.

    Parameters
    ----------
    call:
        Called with what ``report(model=...)`` was given: ``lambda model: model.predict(row)``.
    percentile:
        Which one: 95 by default.
    warmup, repeats:
        How many calls are made before, and how many are timed. The standard error that comes with
        the value shrinks with ``repeats``; so does the time that others wait.
    device:
        Where the model runs, if not on the trial's own device: ``"cpu"`` for models trained on a
        GPU and used without one, or ``"cuda:0"`` under Optuna, which gives out no devices.
    aside:
        Cores, as ``{7}``, or a GPU, as ``"cuda:1"``, that no trial uses. The call and the model are
        sent (pickled) to a process that runs there and nowhere else; processes that train keep off
        these cores. GPUs are counted as in ``tune(devices=...)``: give the others to that.
    clock:
        Seconds.
    spell_calls:
        For a certificate: for how many calls in a row the machine may be slow, on average. Twice as
        many count as one call, so a 95th percentile is certified from 2,600 calls on
        (``repeats=``); 1 says that calls are independent, and 65 will do. What the calls show to be
        longer counts in its place.

    >>> check = LatencyCheck(lambda model: model(1000), percentile=50, repeats=20)
    >>> check(lambda n: sum(range(n))).value > 0
    True
    """

    #: a checkpoint that would become the best is measured once more
    measures_again = True

    def __init__(
        self,
        call: Callable[[Any], object],
        *,
        percentile: float = 95,
        warmup: int = 10,
        repeats: int = 200,
        device: str | None = None,
        aside: Iterable[int] | str | None = None,
        clock: Callable[[], float] = time.perf_counter,
        spell_calls: int = SPELL,
    ) -> None:
        require_whole("spell_calls", spell_calls, least=1)
        if not callable(call):
            raise GoalError(f"call must be a function of the model, got {call!r}")
        if isinstance(percentile, bool) or not isinstance(percentile, (int, float)):
            raise GoalError(f"percentile must be a number, got {percentile!r}")
        if not 0 < percentile < 100:
            raise GoalError(f"percentile must lie between 0 and 100, got {percentile!r}")
        if percentile < 1:  # a share: it would measure about the fastest call
            raise GoalError(
                f"percentile is of a hundred, got {percentile!r}; for {percentile:.0%} give "
                f"{100 * percentile:g}"
            )
        _require_calls(warmup, repeats)
        least = math.ceil(100 / (100 - percentile) - 1e-9)
        if repeats < least:
            raise GoalError(
                f"{repeats} calls cannot tell what {percentile:g} % of them stay within; give "
                f"repeats >= {least}, better ten times that"
            )
        if device not in (None, "cpu") and not _is_gpu(device):
            raise GoalError(f"device must be 'cpu' or a GPU such as 'cuda:0', got {device!r}")
        if device is not None and aside is not None:
            raise GoalError(
                f"give device={device!r} or aside={aside!r}, not both: what is set aside is where "
                "it is measured"
            )
        self.call, self.percentile = call, percentile
        self.warmup, self.repeats, self.clock = warmup, repeats, clock
        self.spell_calls = spell_calls
        self.device = device
        self.aside = None if aside is None else _require_reservable(aside)

    @property
    def measured_alone(self) -> bool:
        """Whether the trials on the device wait."""
        return self.aside is None

    def __call__(self, model: object) -> Estimate:
        """The percentile of this model."""
        return self.profile(model).percentile(self.percentile)

    def profile(self, model: object) -> LatencyProfile:
        """All that was measured of this model; as alone as in a study, also outside of one."""
        with alone(self):
            if self.aside is None:
                return self._measure(model)
            helper = _reserved.helper_on(self.aside)
            found: LatencyProfile = helper.run(self._measure, model)
            return found

    def evidence_mismatch(self, found: object) -> str | None:
        """Why the calls of ``confirm`` tell nothing of this percentile; asked for a certificate."""
        if not isinstance(found, Quantile):
            return another_kind(found, Quantile, f"the percentile {self.percentile:g} of times")
        if found.share <= 1 - self.percentile / 100 + 1e-9:
            return None  # what holds for more of the calls holds for fewer
        given = 100 * (1 - found.share)
        return (
            f"the search limits the percentile {self.percentile:g}, and confirm gave the "
            f"percentile {given:g}: return the same one"
        )

    def _measure(self, model: object) -> LatencyProfile:
        found = measure_latency(
            lambda: self.call(model), warmup=self.warmup, repeats=self.repeats, clock=self.clock
        )
        return replace(found, spell_calls=self.spell_calls)

    def __repr__(self) -> str:
        where = "" if self.device is None else f", device={self.device!r}"
        if self.aside is not None:
            where = f", aside={self.aside if isinstance(self.aside, str) else set(self.aside)!r}"
        return (
            f"LatencyCheck({self.call!r}, percentile={self.percentile:g}, warmup={self.warmup}, "
            f"repeats={self.repeats}{where})"
        )


def _require_calls(warmup: int, repeats: int) -> None:
    require_whole("warmup", warmup, least=0)
    require_whole("repeats", repeats, least=1)


def _is_gpu(device: object) -> bool:
    return isinstance(device, str) and device.partition(":")[0] == "cuda"


def _require_reservable(device: Iterable[int] | str) -> frozenset[int] | str:
    """Cores, or the physical name of a GPU: known here, where all that were given can be seen."""
    if isinstance(device, str):
        if not _is_gpu(device):
            raise GoalError(f"aside must be cores such as {{7}} or a GPU 'cuda:1', got {device!r}")
        return physical_gpu(device, os.environ)
    try:
        cores = frozenset(device)
    except TypeError:
        cores = frozenset()
    if not cores or not all(type(core) is int and core >= 0 for core in cores):
        raise GoalError(
            f"aside must be cores such as {{7}} or a GPU such as 'cuda:1', got {device!r}"
        )
    return cores


def quantile(sample: NDArray[np.float64], share: float) -> Estimate:
    """The least value that at least ``share`` of a sorted sample does not exceed.

    The standard error is that of Maritz and Jarrett (*A note on estimating the variance of the
    sample median*, 1978), for any quantile: the one that endless bootstrapping would give. It
    takes the sample for independent draws.

    >>> quantile(np.arange(1.0, 101.0), 0.95).value
    95.0
    """
    n = len(sample)
    rank = max(1, math.ceil(n * share - 1e-9))
    spread = _WIDTH * math.sqrt(n * share * (1.0 - share)) + 1.0
    first, last = max(0, math.floor(rank - spread)), min(n, math.ceil(rank + spread))
    reached = _at_least(rank, n, np.arange(first, last + 1) / n)
    weights = np.diff(reached)
    value = float(sample[rank - 1])
    apart = sample[first:last] - value  # exactly 0 where all are equal
    variance = float(weights @ (apart - weights @ apart) ** 2)
    return Estimate(value, math.sqrt(max(0.0, variance)))


def block_of(calls: NDArray[np.float64], share: float, spell: int) -> int:
    """How many calls in a row count as one in a certificate: twice as many as a spell lasts.

    The longer of what is assumed and of what the calls show. What they show alone would not do:
    where a spell is rare, most measurements have none.

    >>> alike = np.random.default_rng(0).random(1000)
    >>> block_of(alike, 0.05, 1), block_of(alike, 0.05, 20)
    (1, 40)
    """
    shown = spacing(calls, share)
    return max(1 if spell == 1 else 2 * spell, 1 if shown == 1 else 2 * shown)


def spacing(calls: NDArray[np.float64], share: float = 0.05) -> int:
    """How many calls apart the next one tells little of the one before.

    A machine that is slow for a moment is slow for several calls. The spacing is the shortest at
    which two calls are hardly correlated: in their ranks, in whether they are among the slowest
    ``share`` of calls, and in whether they are among the slowest half of these.

    >>> spacing(np.repeat(np.random.default_rng(0).random(100), 3)) >= 3
    True
    """
    count = len(calls)
    calls = np.where(np.isnan(calls), np.inf, calls)
    ordered = np.sort(calls)
    series = [(np.searchsorted(ordered, calls) + np.searchsorted(ordered, calls, "right")) / 2.0]
    for part in (share, share / 2):
        slow = min(count, max(2, round(count * part)) + 1)
        series.append((calls > ordered[-slow]).astype(float))
    centred = [one - one.mean() for one in series]
    units = [one / math.sqrt(one @ one) for one in centred if one @ one > 0]
    most = max(1, count // 4)
    for found in range(1, most):
        # what two standard deviations of chance give at this distance is no correlation
        if all(float(one[:-found] @ one[found:]) <= 2 / count**0.5 for one in units):
            return found
    return most


def _at_least(rank: int, n: int, chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """That ``rank`` or more of ``n`` draws fall below where one does with this ``chance``."""
    total = np.zeros_like(chance)
    total[chance >= 1.0] = 1.0
    inner = (chance > 0.0) & (chance < 1.0)
    below, above = np.log(chance[inner]), np.log1p(-chance[inner])
    for count in range(rank, n + 1):
        ways = math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)
        total[inner] += np.exp(ways + count * below + (n - count) * above)
    return total
