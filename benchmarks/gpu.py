"""One GPU shared by two workers: what reports and checks cost there, latency alone, out of memory.

Four questions, each answered with real PyTorch training on one CUDA device:

1. What does a report, and what does a check add to a step of training, when the GPU's work is
   waited for before and after (synchronised clocks)? Two workers share the device
   (``devices=[0]``); the same two processes without acetune are the peer.
2. What does a latency check measure while another worker trains on the same GPU: alone, as
   ``LatencyCheck`` does, and beside it?
3. Does a trial that runs out of GPU memory spoil anything for the others, or for its worker?

It needs a CUDA device and PyTorch: ``python benchmarks/gpu.py --results FOLDER``.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import acetune
from acetune.constraints import LatencyCheck
from acetune.constraints.latency import measure_latency
from acetune.export import to_csv
from benchmarks.common import Page, results_folder, say, versions

WIDTH, DEPTH, BATCH, STEPS = 2048, 6, 4096, 30
WORKERS = 2


def make_net(width: int = WIDTH) -> torch.nn.Module:
    """A multilayer perceptron whose step takes some milliseconds on a large GPU."""
    sizes = [256, *[width] * DEPTH]
    layers = [
        layer
        for a, b in itertools.pairwise(sizes)
        for layer in (torch.nn.Linear(a, b), torch.nn.ReLU())
    ]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1)).cuda()


class Training:
    """A network, its data on the GPU, and one step of its training."""

    def __init__(self, batches: int = 8) -> None:
        torch.manual_seed(0)
        self.net = make_net()
        self.rows = torch.randn(BATCH, 256, device="cuda")
        self.labels = (self.rows[:, :1] > 0).float()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-4)
        self.batches = batches

    def step(self) -> float:
        """Some batches; the GPU has done them when this returns."""
        for _ in range(self.batches):
            self.optimizer.zero_grad()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                self.net(self.rows), self.labels
            )
            loss.backward()
            self.optimizer.step()
        torch.cuda.synchronize()
        return float(loss)


def note(log: Path, **row: Any) -> None:
    """One line of what a worker measured."""
    with log.open("a") as file:
        file.write(json.dumps(row) + "\n")


def noted(log: Path) -> list[dict[str, Any]]:
    """What workers measured."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def plain(log: Path) -> None:
    """The same training without acetune."""
    training = Training()
    training.step()
    for _ in range(STEPS):
        began = time.perf_counter()
        training.step()
        note(log, step_s=time.perf_counter() - began)


def reporting(log: Path) -> Callable[[acetune.Trial], None]:
    """Training that reports its model, and writes down what steps and reports took."""

    def train(trial: acetune.Trial) -> None:
        training = Training()
        training.step()
        for step in trial.steps(STEPS):
            began = time.perf_counter()
            loss = training.step()
            trained = time.perf_counter()
            trial.report(loss, model=training.net)
            torch.cuda.synchronize()
            note(log, step_s=trained - began, report_s=time.perf_counter() - trained, step=step)

    return train


def share_positive(net: torch.nn.Module) -> float:
    """A check on the GPU: one batch forward."""
    with torch.no_grad():
        rows = torch.randn(BATCH, 256, device="cuda", generator=torch.cuda.default_generators[0])
        return float((net(rows) > 0).float().mean())


def tuned(folder: Path, name: str, train: Any, **options: Any) -> acetune.StudyResult:
    """A study of two workers on one GPU."""
    result: acetune.StudyResult = acetune.tune(
        train,
        options.pop("space", {"x": acetune.uniform(0.0, 1.0)}),
        objective="loss",
        mode="min",
        policy=options.pop("policy", "none"),
        searcher="random",
        devices=[0],
        workers=WORKERS,
        seed=0,
        study=folder / f"{name}.db",
        progress=False,
        **options,
    )
    return result


def sharing(page: Page, folder: Path, trials: int) -> None:
    """Steps, reports and checks with two workers on one GPU."""
    say("steps, reports and checks")
    quick = acetune.Constraint("share", upper=2.0, check=share_positive)
    rows: dict[str, dict[str, float]] = {}

    def median(name: str, found: list[float]) -> str:
        rows.setdefault(name, {})
        return f"{statistics.median(found) * 1e3:.2f} ms" if found else ""

    log = folder / "plain.jsonl"
    context = multiprocessing.get_context("spawn")
    for _ in range(max(1, trials // WORKERS)):
        workers = [context.Process(target=plain, args=(log,)) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    steps = [row["step_s"] for row in noted(log)]
    table = [["two processes without acetune", median("plain", steps), "", ""]]
    base = statistics.median(steps)

    for title, policy, constraints in [
        ("two workers, reports without checks", "none", []),
        ("two workers, a check in every report", "ace-beta1", [quick]),
    ]:
        log = folder / f"{policy}.jsonl"
        result = tuned(
            folder,
            policy,
            reporting(log),
            policy=policy,
            constraints=constraints,
            max_trials=trials,
        )
        lines = noted(log)
        steps = [row["step_s"] for row in lines]
        reports = [row["report_s"] for row in lines]
        checks = "" if not constraints else _per_check(result)
        table.append([title, median(policy, steps), median(policy, reports), checks])
        say(f"{title}: step {statistics.median(steps) / base:.3f} of the plain one")
    page.add("## Steps, reports and checks", "")
    page.table(["medians", "a step of training", "`report`", "of it the check"], table)


def _per_check(result: acetune.StudyResult) -> str:
    ledger = result.ledger
    return f"{ledger.checks_s / max(ledger.checks, 1) * 1e3:.2f} ms"


def latency(page: Page, folder: Path, trials: int) -> None:
    """What a latency check measures while another worker trains on the same GPU."""
    say("latency")
    rows = torch.randn(64, 256)

    def call(net: torch.nn.Module) -> None:
        with torch.no_grad():
            net(rows.cuda())

    def beside(net: torch.nn.Module) -> acetune.Estimate:
        return measure_latency(lambda: call(net), repeats=100).p95

    free = measure_latency(functools.partial(call, make_net()), repeats=1000).p95
    torch.cuda.empty_cache()
    table = [["in a process with the GPU to itself", f"{free.value:.3f} ms", "", "1,000 calls"]]
    checks: list[tuple[str, str, Callable[..., Any]]] = [
        ("alone", "in a study, alone: `LatencyCheck`", LatencyCheck(call, repeats=100)),
        ("beside", "in a study, beside the other worker's training", beside),
    ]
    for name, title, check in checks:
        limit = acetune.Constraint("p95_ms", upper=1e6, check=check)
        result = tuned(
            folder,
            name,
            reporting(folder / f"{name}.jsonl"),
            policy="ace-beta1",
            constraints=[limit],
            max_trials=trials,
        )
        found = values(folder / f"{name}.db")
        spread = f"{min(found):.3f} to {max(found):.3f} ms"
        waited = f", waited {result.ledger.waiting_s:.1f} s" if result.ledger.waiting_s else ""
        table.append(
            [title, f"{statistics.median(found):.3f} ms", spread, f"{len(found)} checks{waited}"]
        )
    page.add("## A latency check, while the other worker trains on the same GPU", "")
    page.table(["95th percentile of a call", "median", "least to most", "of"], table)


def values(study: Path) -> list[float]:
    """All that was measured of a constraint."""
    with tempfile.TemporaryDirectory() as folder:
        to_csv(study, folder)
        lines = (Path(folder) / "checks.csv").read_text().splitlines()
    place = lines[0].split(",").index("value")
    return [float(line.split(",")[place]) for line in lines[1:]]


def out_of_memory(page: Page, folder: Path, trials: int) -> None:
    """Trials that ask for more memory than there is, beside others that do not."""
    say("out of memory")
    log = folder / "memory.jsonl"

    def train(trial: acetune.Trial) -> None:
        training = Training(batches=2)
        free_at_start, total = torch.cuda.mem_get_info()
        note(log, trial=trial.number, free=free_at_start, total=total)
        for step in trial.steps(10):
            loss = training.step()
            if trial.params["greedy"] and step == 3:
                torch.empty(2 * total, dtype=torch.uint8, device="cuda")
            trial.report(loss, model=training.net)

    result = tuned(
        folder,
        "memory",
        train,
        space={"greedy": acetune.choice([True, False])},
        max_trials=trials,
        retries=0,
        max_failures=trials + 1,
    )
    frame = result.trials
    greedy = frame["param.greedy"] if "param.greedy" in frame else frame["greedy"]
    failed, whole = frame["state"] == "failed", frame["state"] == "finished"
    reasons = {str(reason).splitlines()[0][:90] for reason in frame.loc[failed, "reason"]}
    least = min(row["free"] / row["total"] for row in noted(log))
    broke, went_on = int((failed & greedy).sum()), int((whole & ~greedy).sum())
    page.add("## Trials that run out of memory", "")
    page.add(
        f"- {int(greedy.sum())} of {len(frame)} trials asked for twice the device's memory at "
        f"their third step: {broke} of them failed.",
        f"- Of the {int((~greedy).sum())} others {went_on} finished.",
        f"- What the study says of the failed ones: {'; '.join(sorted(reasons))}",
        f"- At the start of every trial at least {least:.0%} of the memory was free, also for "
        "those on a worker whose trial before had failed.",
        "",
    )


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few trials; writes nothing")
    parser.add_argument("--results", type=Path, help="where the page goes")
    options = parser.parse_args()
    trials = 4 if options.quick else 12
    page = Page("One GPU shared by two workers", "gpu", [])
    page.add(f"{versions('torch')}, {torch.cuda.get_device_name(0)}", "")
    page.add(
        f"A step is 8 batches of {BATCH:,} rows through {DEPTH} layers of {WIDTH:,} units, "
        "forward, backward and AdamW; the GPU is waited for before each clock is read.",
        "",
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sharing(page, folder, trials)
        latency(page, folder, max(4, trials // 3))
        out_of_memory(page, folder, trials)
    page.write(results_folder(options.results, options.quick))


if __name__ == "__main__":
    main()
