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
import contextlib
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
from acetune.study.store import Store
from acetune.study.table_rows import CheckRow
from benchmarks.common import results_folder, say, versions
from benchmarks.speed import SpeedPage

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
        return float(loss.detach())


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


def reporting(log: Path, keep: bool, check: bool = False) -> Callable[[acetune.Trial], None]:
    """Training that reports, and writes down what steps and reports took.

    With ``keep`` the model is handed over, and kept on disk wherever it is a new best that
    satisfies the limits.
    """

    def train(trial: acetune.Trial) -> None:
        training = Training()
        training.step()
        for step in trial.steps(STEPS):
            began = time.perf_counter()
            loss = training.step()
            trained = time.perf_counter()
            if check:
                trial.report(loss, constraints={"share": lambda: share_positive(training.net)})
            elif keep:
                trial.report(loss, model=training.net)
            else:
                trial.report(loss)
            torch.cuda.synchronize()
            note(log, step_s=trained - began, report_s=time.perf_counter() - trained, step=step)

    return train


def share_positive(net: torch.nn.Module) -> float:
    """A check on the GPU: one batch forward."""
    with torch.no_grad():
        rows = torch.randn(BATCH, 256, device="cuda")
        return float((net(rows) > 0).float().mean())


def tuned(folder: Path, name: str, train: Any, **options: Any) -> Path:
    """A study of two workers on one GPU: its file."""
    study = folder / f"{name}.db"
    acetune.tune(
        train,
        options.pop("space", {"x": acetune.uniform(0.0, 1.0)}),
        objective="loss",
        mode="min",
        policy=options.pop("policy", "none"),
        searcher="forest",
        devices=[0],
        workers=WORKERS,
        seed=0,
        study=study,
        progress=False,
        **options,
    )
    return study


def sharing(page: SpeedPage, folder: Path, trials: int) -> None:
    """Steps, reports and checks with two workers on one GPU."""
    say("steps, reports and checks")
    share = acetune.Constraint("share", upper=2.0)
    every = acetune.ACE(interval=1, gate=False)
    plain_steps: list[float] = []
    steps: dict[str, list[float]] = {}
    reports: dict[str, list[float]] = {}
    checks: list[float] = []
    rounds = max(1, trials // (2 * WORKERS))  # contenders take turns
    context = multiprocessing.get_context("spawn")
    for turn in range(rounds):
        log = folder / f"plain-{turn}.jsonl"
        workers = [context.Process(target=plain, args=(log,)) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        plain_steps += [row["step_s"] for row in noted(log)]
        for title, policy, constraints, keep in [
            ("reports without checks", "none", [], False),
            ("a check in every report", every, [share], False),
            ("every model kept, without checks", "none", [], True),
        ]:
            log = folder / f"{title}-{turn}.jsonl"
            study = tuned(
                folder,
                f"{title}-{turn}",
                reporting(log, keep, bool(constraints)),
                policy=policy,
                constraints=constraints,
                max_trials=2 * WORKERS,
            )
            steps.setdefault(title, []).extend(row["step_s"] for row in noted(log))
            reports.setdefault(title, []).extend(row["report_s"] for row in noted(log))
            checks += [check.cost_s or 0.0 for check in checks_of(study)]
    page.add("Steps, reports and checks, medians in ms:", "")
    rows = [["two processes without acetune", ms(plain_steps), "", ""]]
    for title in steps:
        check = ms(checks) if "check in" in title else ""
        rows.append([f"two workers, {title}", ms(steps[title]), ms(reports[title]), check])
    page.table(["", "a step of training", "`report`", "of it the check"], rows)
    for name, title in zip(("reports", "checks"), steps, strict=False):
        page.figure(
            f"gpu-step-with-{name}",
            f"a step of training on a shared GPU, {title}",
            quartiles(steps[title]),
            "ms",
            peer="two processes without acetune",
            peers=quartiles(plain_steps),
        )
        page.figure(
            f"gpu-report-with-{name}",
            f"a report on a shared GPU, {title}",
            quartiles(reports[title]),
            "ms",
        )
    page.figure("gpu-check", "of it the check, a batch forward", quartiles(checks), "ms")


def quartiles(seconds: list[float]) -> list[float]:
    """First quarter, median and third, in milliseconds."""
    return [1e3 * part for part in statistics.quantiles(seconds, n=4)]


def ms(seconds: list[float]) -> str:
    """The median in milliseconds."""
    return f"{statistics.median(seconds) * 1e3:.2f}"


def latency(page: SpeedPage, folder: Path, trials: int) -> None:
    """What a latency check measures while another worker trains on the same GPU."""
    say("latency")
    rows = torch.randn(64, 256)

    def call(net: torch.nn.Module) -> None:
        with torch.no_grad():
            net(rows.cuda())
        torch.cuda.synchronize()

    def beside(net: torch.nn.Module) -> acetune.Estimate:
        return measure_latency(lambda: call(net), repeats=100).p95

    free = measure_latency(functools.partial(call, make_net()), repeats=1000).p95
    torch.cuda.empty_cache()
    table = [["in a process with the GPU to itself", f"{free.value:.3f}", "", "1,000 calls"]]
    checks: list[tuple[str, str, Callable[..., Any]]] = [
        ("alone", "in a study, measured alone (`LatencyCheck`)", LatencyCheck(call, repeats=100)),
        ("beside", "in a study, beside the other worker's training", beside),
    ]
    for name, title, check in checks:
        limit = acetune.Constraint("p95_ms", upper=1e6, check=check)
        study = tuned(
            folder,
            name,
            reporting(folder / f"{name}.jsonl", keep=True),
            policy=acetune.ACE(interval=1, gate=False),
            constraints=[limit],
            max_trials=trials,
        )
        found = [check.value for check in checks_of(study) if check.value is not None]
        spread = f"{min(found):.3f} to {max(found):.3f}"
        table.append([title, f"{statistics.median(found):.3f}", spread, f"{len(found)} checks"])
        page.figure(
            f"gpu-latency-{name}",
            f"95th percentile of a call on a shared GPU, {title}",
            found,
            "ms",
            peer="the GPU to itself",
            peers=[free.value],
            ratios=[value / free.value for value in found],
        )
    page.add("A latency check, while the other worker trains on the same GPU:", "")
    page.table(["95th percentile of a call, ms", "median", "least to most", "of"], table)


def checks_of(study: Path) -> list[CheckRow]:
    """All checks of a study."""
    with contextlib.closing(Store.read(study)) as store:
        return [check for _, checks in store.reports() for check in checks]


def out_of_memory(page: SpeedPage, folder: Path, trials: int) -> None:
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
            trial.report(loss)

    study = tuned(
        folder,
        "memory",
        train,
        space={"greedy": acetune.choice([True, False])},
        max_trials=trials,
        retries=0,
        max_failures=trials + 1,
    )
    with contextlib.closing(Store.read(study)) as store:
        ended = [
            (row.params["greedy"], row.state, str(row.reason).strip().splitlines()[:1])
            for row in store.attempts()
        ]
    greedy = [state for wants, state, _ in ended if wants]
    others = [state for wants, state, _ in ended if not wants]
    reasons = {said[0][:90] for wants, _, said in ended if wants and said}
    least = min(row["free"] / row["total"] for row in noted(log))
    page.add("Trials that run out of memory:", "")
    page.add(
        f"- {len(greedy)} of {len(ended)} trials asked for twice the device's memory at their "
        f"third step: {greedy.count('failed')} of them failed.",
        f"- Of the {len(others)} others {others.count('finished')} finished.",
        f"- What the study says of the failed ones: `{'`; `'.join(sorted(reasons))}`",
        f"- At the start of every trial at least {least:.0%} of the memory was free, also for "
        "those on a worker whose trial before had failed.",
        "",
    )
    page.figure(
        "gpu-out-of-memory",
        "trials beside others that run out of GPU memory, and finish all the same",
        [100 * others.count("finished") / len(others)],
        "%",
        least=100,
    )


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few trials; writes nothing")
    parser.add_argument("--results", type=Path, help="where the page goes")
    options = parser.parse_args()
    trials = 4 if options.quick else 12
    page = SpeedPage(
        "One GPU shared by two workers", "gpu", [], ["run/*", "trial/*", "constraints/*latency*"]
    )
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
