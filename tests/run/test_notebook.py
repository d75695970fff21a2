"""Studies in the kernel of a notebook: progress, the result, Ctrl-C, and what is left."""

from __future__ import annotations

import queue
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

pytestmark = pytest.mark.filterwarnings("default")  # those of Jupyter's own parts

TRAIN = """
import time
import acetune

def train(trial):
    for step in trial.steps(3):
        trial.report(loss=trial.params["x"] + 1 / step, model=step)
        time.sleep(PAUSE)

def run(**options):
    return acetune.tune(
        train, {"x": acetune.uniform(0, 1)}, objective="loss", mode="min", workers=1, seed=0,
        constraints=[acetune.Constraint("size <b>", upper=9, check=lambda model: model)], **options,
    )
"""


class Kernel:
    """A kernel, and what its cells give."""

    def __init__(self, folder: Path) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder))
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=100)

    def outputs(self, code: str) -> Iterator[dict[str, Any]]:
        """The messages of a cell as they come, until it has ended."""
        asked = self.client.execute(code)
        ends = time.monotonic() + 100
        while time.monotonic() < ends:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != asked:
                continue
            if message["content"].get("execution_state") == "idle":
                return
            yield message
        raise AssertionError("the cell has not ended")

    def run(self, code: str) -> list[dict[str, Any]]:
        """All of them."""
        return list(self.outputs(code))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    monkeypatch.setenv("HOME", str(tmp_path))  # no settings of the user's
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    started = Kernel(tmp_path)
    yield started
    started.client.stop_channels()
    started.manager.shutdown_kernel(now=True)


def of_kind(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [message["content"] for message in messages if message["msg_type"] == kind]


def test_progress_is_one_output_and_the_result_has_a_picture(kernel: Kernel) -> None:
    kernel.run("PAUSE = 0.1" + TRAIN)
    messages = kernel.run("result = run(max_trials=3)\nprint(result.study)\nresult")
    assert not of_kind(messages, "error")
    (shown,) = of_kind(messages, "display_data")
    updates = of_kind(messages, "update_display_data")
    assert len(updates) > 1
    assert {u["transient"]["display_id"] for u in updates} == {shown["transient"]["display_id"]}
    last = updates[-1]["data"]
    assert (
        "3 finished" in last["text/plain"]
        and "removed when this program ends" in last["text/plain"]
    )
    assert "size &lt;b&gt;" in last["text/html"] and "<b>" not in last["text/html"]
    assert all(content["name"] == "stdout" for content in of_kind(messages, "stream"))

    (answer,) = of_kind(messages, "execute_result")
    html = answer["data"]["text/html"]
    assert "best feasible" in html and "<path" in html and "Best feasible over time" in html
    assert "best feasible" in answer["data"]["text/plain"]

    study = Path(of_kind(messages, "stream")[0]["text"].strip())
    assert study.exists()
    kernel.manager.shutdown_kernel(now=False)
    ends = time.monotonic() + 60
    while study.parent.exists() and time.monotonic() < ends:
        time.sleep(0.1)
    assert not study.parent.exists()


def test_the_stop_button_ends_a_study_that_the_same_cell_takes_up(kernel: Kernel) -> None:
    kernel.run("PAUSE = 0.3" + TRAIN)
    messages, pressed = [], False
    for message in kernel.outputs("run(study='study.db', max_trials=3)"):
        messages.append(message)
        if not pressed and "trial 1 step 1" in str(message["content"].get("data")):
            pressed = True
            kernel.manager.interrupt_kernel()
    (answer,) = of_kind(messages, "execute_result")
    assert "interrupted by the user" in answer["data"]["text/plain"]
    messages = kernel.run("run(study='study.db', max_trials=3)")
    (answer,) = of_kind(messages, "execute_result")
    assert "3 (3 finished)" in answer["data"]["text/plain"]
    assert "goes on after" in of_kind(messages, "update_display_data")[-1]["data"]["text/plain"]


def test_a_script_without_a_study_leaves_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "PAUSE = 0" + TRAIN + "result = run(max_trials=2)\n"
        "assert result.best.load() and result.study.exists()\nprint(result)\n"
    )
    env = {"TMPDIR": str(tmp_path), "PATH": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "removed when this program ends" in done.stdout
    assert "which is removed when this program ends" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path != script] in ([], ["acetune-locks-0"])
