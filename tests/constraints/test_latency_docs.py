"""What the page on latency shows is what runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import acetune
from acetune.constraints.latency import LatencyCheck
from acetune.quiet import measured_alone

ROOT = Path(__file__).parent.parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "latency.md").read_text(), re.DOTALL)


def test_the_page_shows_the_example() -> None:
    assert (ROOT / "examples" / "latency.py").read_text().endswith(BLOCKS[0])
    assert BLOCKS[0].startswith("def predict")


def test_a_configuration_is_measured_as_shown() -> None:
    names: dict[str, Any] = {"LatencyCheck": LatencyCheck, "acetune": acetune}
    names |= {"call": sum, "build": lambda params: params["rows"]}
    exec(BLOCKS[1], names)
    assert measured_alone(names["limit"].check)
    assert names["limit"].check({"rows": [1, 2]}).value > 0


def test_devices_are_set_aside_as_shown() -> None:
    names = {"LatencyCheck": LatencyCheck, "call": len}
    exec(BLOCKS[2], names)


def test_the_example_without_a_study_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BLOCKS[3]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.match(r"p50 .* ms \(500 calls on .*\)\nEstimate\(value=", done.stdout)
    assert len(BLOCKS) == 4
