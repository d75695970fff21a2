"""The front door: ``tune()``."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

from acetune.certification.account import require_confidence
from acetune.core.did_you_mean import suggesting
from acetune.core.errors import GoalError, StudyError
from acetune.core.formatting import size
from acetune.core.goals import (
    Constraint,
    Goals,
    Mode,
    Objective,
    constraint_list,
    split_constraints,
)
from acetune.interprocess.code_file import code_size
from acetune.interprocess.pickling import pickle_code
from acetune.policies import Policy, make_policy
from acetune.policies.stopper import stopper_of
from acetune.run._confirmation import (
    check_after_run,
    confirm_best,
    measure_again,
    say_rejected,
    why_not_again,
)
from acetune.run._driver import Driver
from acetune.run._local_workers import IN_WORKER, LocalSite
from acetune.run._messages import Work
from acetune.run._options import Settings, make_cluster, require_flags, require_options, shared_out
from acetune.run._pool import Pool, Site
from acetune.run._ray_cluster import RayCluster
from acetune.run._suggestions import Suggester
from acetune.run._trial_queue import TrialQueue
from acetune.run.dry_run import DryRun, TwoSteps, rehearse, without_limits
from acetune.run.study_callbacks import Listeners, StudyCallback, StudyStatus
from acetune.run.terminal import make_progress
from acetune.searchers import DEFAULT_SEARCHER, Searcher, make_searcher
from acetune.searchers.searcher import learns_from_earlier, learns_nothing_earlier
from acetune.searchers.space import Space
from acetune.study.coordinator import StudyCoordinator, left_alone
from acetune.study.earlier_studies import EarlierStudies, kept_curves
from acetune.study.fresh_rows import fingerprint, row_count
from acetune.study.margins import with_margins
from acetune.study.opening import (
    CodeChangedWarning,
    OnChangedCheck,
    OnChangedLimit,
    describe_study,
    known_ranges,
    open_study,
    require_fitting,
    require_on_changed_check,
    require_on_changed_limit,
    study_path,
)
from acetune.study.result import StudyResult, read_result
from acetune.study.source_signature import mark_of
from acetune.study.store import Durability, require_durability
from acetune.study.temporary import temporary_study
from acetune.trial.exclusive import needs_of
from acetune.trial.trial import Trial

__all__ = ["CodeChangedWarning", "tune"]

_CONFIRM_TOP = 5  # candidates, from safe to bold
_MUCH_CODE = 100_000_000  # bytes that train and the checks close over: people are told

#: what other tuners call it
OTHER_NAMES = dict.fromkeys(("n_trials", "trials", "num_samples", "n_iter"), "max_trials=100")
OTHER_NAMES |= dict.fromkeys(("timeout", "time_limit", "budget"), "time_budget_s=600")
OTHER_NAMES |= dict.fromkeys(("direction", "directions"), 'mode="max" or "min"')
OTHER_NAMES |= dict.fromkeys(("metric",), 'objective="auc"')
OTHER_NAMES |= dict.fromkeys(
    ("patience", "early_stopping_rounds", "no_improvement"), "patience_trials=50 or patience_s=600"
)
OTHER_NAMES |= dict.fromkeys(("n_jobs", "jobs", "processes"), "workers=4")
OTHER_NAMES |= dict.fromkeys(("constraint", "limits"), "constraints=[...]")
OTHER_NAMES |= dict.fromkeys(("study_name", "storage", "path"), 'study="study.db"')
OTHER_NAMES |= dict.fromkeys(("pruner", "scheduler"), 'policy="adaptive"')
OTHER_NAMES |= dict.fromkeys(("warm_start", "transfer_from"), 'learn_from=["old.db"]')
OTHER_NAMES |= dict.fromkeys(("sampler", "search_alg"), 'searcher="forest"')


@overload
def tune(
    train: Callable[[Trial], object],
    space: Mapping[str, object],
    *,
    dry_run: Literal[True],
    **options: Any,
) -> DryRun: ...
@overload
def tune(
    train: Callable[[Trial], object],
    space: Mapping[str, object],
    *,
    objective: str,
    mode: Mode,
    constraints: Sequence[Constraint] = (),
    policy: Policy | str | None = None,
    searcher: str | Searcher = DEFAULT_SEARCHER,
    points: Sequence[Mapping[str, Any]] = (),
    learn_from: Sequence[str | Path] = (),
    confirm: Callable[[Any], Mapping[str, Any]] | None = None,
    confirm_top: int | None = None,
    confirm_data: Any = None,
    confidence: float = 0.95,
    keep_models: int = 3,
    time_budget_s: float | None = None,
    max_trials: int | None = None,
    target: float | None = None,
    patience_trials: int | None = None,
    patience_s: float | None = None,
    workers: int | None = None,
    threads: int | None = None,
    devices: Sequence[str | int] = (),
    engine: Literal["local", "ray"] = "local",
    ray_address: str | None = None,
    resources: Mapping[str, float] | None = None,
    retries: int = 0,
    report_timeout_s: float | None = None,
    stop_grace_s: float = 30.0,
    max_failures: int = 5,
    seed: int | None = None,
    study: str | Path | None = None,
    on_changed_check: OnChangedCheck = "refuse",
    on_changed_limit: OnChangedLimit = "refuse",
    durability: Durability = "process",
    progress: bool = True,
    callbacks: Sequence[StudyCallback] = (),
    dry_run: Literal[False] = False,
) -> StudyResult: ...
@suggesting(OTHER_NAMES)  # type: ignore[misc]  # unknown options are refused as it runs
def tune(
    train: Callable[[Trial], object],
    space: Mapping[str, object],
    *,
    objective: str,
    mode: Mode,
    constraints: Sequence[Constraint] = (),
    policy: Policy | str | None = None,
    searcher: str | Searcher = DEFAULT_SEARCHER,
    points: Sequence[Mapping[str, Any]] = (),
    learn_from: Sequence[str | Path] = (),
    confirm: Callable[[Any], Mapping[str, Any]] | None = None,
    confirm_top: int | None = None,
    confirm_data: Any = None,
    confidence: float = 0.95,
    keep_models: int = 3,
    time_budget_s: float | None = None,
    max_trials: int | None = None,
    target: float | None = None,
    patience_trials: int | None = None,
    patience_s: float | None = None,
    workers: int | None = None,
    threads: int | None = None,
    devices: Sequence[str | int] = (),
    engine: Literal["local", "ray"] = "local",
    ray_address: str | None = None,
    resources: Mapping[str, float] | None = None,
    retries: int = 0,
    report_timeout_s: float | None = None,
    stop_grace_s: float = 30.0,
    max_failures: int = 5,
    seed: int | None = None,
    study: str | Path | None = None,
    on_changed_check: OnChangedCheck = "refuse",
    on_changed_limit: OnChangedLimit = "refuse",
    durability: Durability = "process",
    progress: bool = True,
    callbacks: Sequence[StudyCallback] = (),
    dry_run: bool = False,
) -> StudyResult | DryRun:
    """Search for the best configuration that keeps the limits.

    Parameters
    ----------
    train:
        Called with a :class:`~acetune.Trial` in a worker process; trains ``trial.params`` and
        reports after each step.
    space:
        Dimensions by name, also as Optuna or Ray Tune write them. A plain value fixes a parameter,
        a dict is a space inside, and the options of a choice may be dicts of their own dimensions.
    objective, mode:
        Name of the reported metric, and ``"min"`` or ``"max"``.
    constraints:
        Limits; those with ``on="config"`` are checked before any training.
    policy:
        When to check and which trials to stop: an object, or a name such as ``"ace"`` or
        ``"asha+after"``; :class:`~acetune.Adaptive` by default.
    searcher:
        ``"forest"`` (learns from every report), ``"tpe"``, ``"random"``, ``"gp"``, ``"cmaes"``
        (blind to constraints), ``"blendsearch"``, ``"cfo"``, or a :class:`~acetune.Searcher`.
    points:
        Configurations to try first; left-out dimensions are sampled.
    learn_from:
        Study files of earlier studies with the same objective, constraints and dimensions: the
        searcher, which has to be ``"forest"``, begins with what they found. Limits and bounds may
        differ.
    confirm:
        Called with a kept model, returns a dict of all constraints, on data that the search never
        saw, and of the objective too if you like; further metrics only beside the objective. A
        value with evidence can be certified: what the checks of :mod:`acetune.constraints` give,
        :class:`acetune.Share`, :class:`acetune.Mean` or, approximately, :class:`acetune.Estimate`.
        See ``result.status``.
    confirm_top:
        How many checkpoints are tested at most, from the safest to the best: 5 by default with
        ``confirm``, else 1.
    confirm_data:
        Which fresh rows ``confirm`` uses: a name, or the rows themselves, of which a checksum is
        kept. Other rows are another look at the same account of errors.
    confidence:
        The probability that a study issues a certificate for a model that breaks a limit, on the
        population that the fresh rows were drawn from, is at most ``1 - confidence``. Fixed when
        the study is created.
    keep_models:
        Of how many of the best valid checkpoints the models stay on disk (at least
        ``confirm_top``), and of how many stopped trials what they could go on from under other
        limits.
    time_budget_s, max_trials:
        Totals over all sessions of the study; at least one of them.
    target:
        The study ends when a feasible answer has an objective this good.
    patience_trials, patience_s:
        It ends when there was no better feasible answer for this many ended trials, or seconds of
        search. Counted from the first feasible answer on.
    workers, threads, devices:
        Worker processes (one per core by default), threads for each, and devices shared out.
    engine:
        ``"local"``: the workers are processes of this machine. ``"ray"``: they are actors of a Ray
        cluster, by default as many as fit it now, with as many threads as CPUs.
    ray_address, resources:
        With Ray, the cluster (``"auto"`` or host:port; Ray that is initialised already is used as
        it is, and without either a local one is started for the study), and what each worker
        gets, such as ``{"cpu": 2, "gpu": 0.5}`` (one CPU by default).
    retries:
        How often a failed trial is tried again.
    report_timeout_s:
        A trial that reports nothing for this many seconds has failed.
    stop_grace_s:
        A trial that was told to stop and goes on for this many seconds is ended with its worker.
    max_failures:
        This many failed trials one after another end the study; so do this many trials whose
        checks, or whose objectives, gave no finite number, if none ever did. A call of ``report``
        that is wrong in itself (no objective, an unknown constraint, no model for a check) ends it
        at once, as long as no trial has reported anything.
    seed:
        Makes the searcher's suggestions repeatable.
    study:
        The study file. The same call again goes on where it was. A temporary file by default.
    on_changed_check:
        What to do where a check has been changed since ``study`` was begun: its code, that of
        functions it calls in your own files, or its options. ``"refuse"`` (default) raises
        :class:`StudyChangedError`. ``"measure_again"`` measures the models that were kept again and
        sets all earlier values aside: other checkpoints count as never checked. ``"accept"`` goes
        on with values of both checks side by side. What was done is in the study file and in the
        summary.
    on_changed_limit:
        What to do where limits, margins or scales of constraints have been changed since ``study``
        was begun. ``"refuse"`` (default) raises :class:`StudyChangedError`. ``"judge_again"``
        judges all that was measured by the current limits, and goes on. Stopped trials that would
        not have been stopped by these, and that a checkpoint was kept of, go on from it. Looks at
        fresh data share one account whatever the limits. Earlier limits are in the study file and
        in the summary.
    durability:
        What acknowledged reports outlast: ``"process"`` (default) that any process is killed; then
        a power cut, or a crash of the system, may take the last moments. ``"power"`` waits for the
        disk at each report and loses none. May be another one in each session.
    progress, callbacks:
        Whether to show progress, and your own listeners.
    dry_run:
        Try one configuration for two steps, with every check and ``confirm`` once, and return a
        :class:`~acetune.DryRun`: times, and an estimate of the whole. What is wrong is raised. The
        values that ``confirm`` gives are thrown away unseen, no look at fresh data is counted, and
        nothing stays on disk.
    """
    if IN_WORKER in os.environ:
        raise StudyError(
            "tune() was called in a worker process, probably because the worker imports the file "
            "that calls it: put the call under  if __name__ == '__main__':"
        )
    constraints = constraint_list(constraints)
    require_flags(dry_run, progress, callbacks)
    require_on_changed_check(on_changed_check)
    require_on_changed_limit(on_changed_limit)
    require_durability(durability)
    path = _study_path(study)
    if dry_run and study is None:
        path.parent.rmdir()  # it was made for a study that is not kept here
    top = confirm_top if confirm_top is not None else 1 if confirm is None else _CONFIRM_TOP
    require_confidence(confidence)
    fresh, fresh_rows = fingerprint(confirm_data), row_count(confirm_data)
    aims = None if confirm is None else confidence
    settings = Settings(
        *shared_out(workers, threads, devices),
        time_budget_s,
        max_trials,
        target,
        patience_trials,
        patience_s,
        retries,
        report_timeout_s,
        stop_grace_s,
        max_failures,
    )
    constraints = with_margins(constraints, path, aims, fresh_rows, max_trials)
    on_model, on_config = split_constraints(constraints)
    goals = Goals(Objective(objective, mode), on_model)
    # limits on the configuration share the names of the others
    Goals(goals.objective, (*on_model, *(replace(limit, on="model") for limit in on_config)))
    searched = Space(space)
    chosen = make_policy(policy)
    require_options(train, goals, chosen, confirm, top, confirm_data, keep_models)
    cluster = make_cluster(engine, ray_address, resources, devices)
    search = make_searcher(searcher, searched, points, seed)
    if learn_from and not learns_from_earlier(search):
        raise GoalError(learns_nothing_earlier(search))
    earlier = EarlierStudies(learn_from, goals, on_config, searched)
    earlier.require_fitting(path)
    stopper = stopper_of(goals, chosen, top)
    if dry_run:
        require_fitting(
            path,
            describe_study(
                *(goals, on_config, chosen, searched.describe(), {}),
                train=train,
                confirm=confirm,
                confidence=confidence,
            ),
            on_changed_check,
            why_not_again(goals),
            on_changed_limit,
        )
        goals, chosen = without_limits(goals), TwoSteps()
    work = Work(train, goals, chosen, confirm, needs_of(limit.check for limit in on_config))
    arrays: list[pickle.PickleBuffer] = []
    if cluster is None:
        code = pickle_code(work, arrays=arrays)
    else:
        code = pickle_code(work, reduce=cluster.reduce)
    taken = code_size(code, arrays) if cluster is None else 0  # on disk, while the study runs
    with contextlib.ExitStack() as open_things:
        if cluster is not None:
            open_things.enter_context(cluster)
            settings = replace(
                settings, workers=workers or cluster.fits(), threads=threads or cluster.threads
            )
        if dry_run:
            alone = replace(settings, max_failures=1, target=None)
            return rehearse(
                goals,
                on_config,
                searched,
                search,
                replace(alone, patience_trials=None, patience_s=None),
                lambda files: _make_site(cluster, code, arrays, files, settings),
                confirms=confirm is not None,
            )
        described = {
            "time_budget_s": time_budget_s,
            "max_trials": max_trials,
            "target": target,
            "patience_trials": patience_trials,
            "patience_s": patience_s,
            "workers": settings.workers,
            "engine": engine,
            "resources": None if cluster is None else cluster.resources,
            "searcher": searcher if isinstance(searcher, str) else type(searcher).__name__,
            "seed": seed,
            "confirm_top": top,
            "keep_models": keep_models,
            "durability": durability,
            "ranges": known_ranges(goals),
            "source": _source_file(train),
            "source_mark": mark_of(_source_file(train)),
            "code_bytes": taken,
        }
        description = describe_study(
            goals,
            on_config,
            chosen,
            searched.describe(),
            described,
            train=train,
            confirm=confirm,
            confidence=confidence,
        )
        store = open_study(
            path,
            description,
            on_changed_check=on_changed_check,
            unmeasurable=why_not_again(goals),
            on_changed_limit=on_changed_limit,
        )
        open_things.callback(store.close)
        store.outlast(durability)
        coordinator = StudyCoordinator(store, stopper, keep_models)
        with store.understanding():
            under_way = coordinator.load(retries)
        open_things.enter_context(left_alone(stopper.history))
        if seed is not None and coordinator.trials:
            begun = coordinator.next_number()
            search = make_searcher(searcher, searched, points, seed, begun)
        learned = earlier.keep_in(store, fresh)
        if learns_from_earlier(search) and (curves := kept_curves(store)):
            search.learn(curves)
        suggester = Suggester(coordinator, search, searched, on_config)
        suggester.remind(under_way)
        listeners = Listeners([*([make_progress()] if progress else []), *callbacks])
        site = _make_site(cluster, code, arrays, store.files, settings)
        pool = Pool(site, settings.workers)
        queue = TrialQueue(coordinator, suggester.suggest, suggester.tell, settings, listeners)
        driver = Driver(coordinator, queue, pool, settings, listeners)
        status = StudyStatus(coordinator, time_budget_s, max_trials, driver.elapsed, store.path)
        listeners.call("on_start", status)
        for text in (*store.notices, *learned):
            listeners.notice(text)
        if study is None:
            text = (
                f"no study= was given: the study is in {path.parent}, which is removed when this "
                'program ends; study="study.db" keeps it, and can be resumed'
            )
            listeners.notice(text)
        if max_trials is not None and max(searched.size, len(coordinator.trials)) < max_trials:
            count = int(searched.size)
            listeners.notice(
                f"the space has only {count} configuration{'s' * (count > 1)}; "
                f"max_trials={max_trials} trains some again"
            )
        if taken > _MUCH_CODE:
            listeners.notice(_much_code(taken, store.files))
        with driver.signals():
            try:
                measure_again(driver, coordinator, listeners)
                driver.run(under_way)
                if chosen.checks_after_run and goals.constraints:
                    check_after_run(driver, coordinator, top, settings.workers)
                if confirm is not None and not driver.interrupted:
                    confirm_best(driver, coordinator, top, listeners, fresh)
                result = read_result(store)
                say_rejected(result, listeners)
            finally:
                driver.close()
                listeners.call("on_end")
            return result


def _study_path(study: str | Path | None) -> Path:
    if study is None:
        return temporary_study()
    return study_path(study)


def _much_code(taken: int, files: Path) -> str:
    return (
        f"train, confirm and the checks close over {size(taken)} of data. It takes as much of the "
        f"disk of {files.parent} until the study ends. What is neither a NumPy array nor a pandas "
        "frame is in memory once per worker. To avoid both, load the data inside train"
    )


def _make_site(
    cluster: RayCluster | None,
    code: bytes,
    arrays: Sequence[pickle.PickleBuffer],
    files: Path,
    settings: Settings,
) -> Site:
    """Where the workers of a study live."""
    if cluster is None:
        return LocalSite(code, arrays, files, settings.threads, settings.devices)
    from acetune.run._ray_workers import RaySite  # imports Ray

    return RaySite(cluster, code, files, settings.threads)


def _source_file(train: Callable[..., object]) -> str | None:
    """The file that ``acetune resume`` loads again, where the study came from ``acetune run``."""
    return getattr(train, "__acetune_source__", None)
