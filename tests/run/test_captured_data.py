"""Data that ``train`` and checks close over: shared, told of, and gone at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acetune
from acetune import Constraint, StudyCallback, Trial
from acetune.core.errors import StudyError
from acetune.run import _local_workers, tuning
from run.helpers import Events, log_of, report_rows, rows, tune, wait_for

DATA = np.arange(1_000_000, dtype="f8")
MAPPED = Path("/proc/self/smaps")


def mapping_of(address: int) -> dict[str, str]:
    """The part of this process's memory that has an address: its file, and who has which pages."""
    found: dict[str, str] = {}
    for line in MAPPED.read_text().splitlines():
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            start, _, end = name.partition("-")
            inside = int(start, 16) <= address < int(end, 16)
            if inside:
                found["file"] = rest.split(maxsplit=4)[-1]
        elif inside:
            found[name] = rest.strip()
    return found


@pytest.mark.skipif(not MAPPED.exists(), reason="the memory of a process is looked at in Linux")
def test_workers_share_large_arrays(study: Path) -> None:
    data = DATA

    def train(trial: Trial) -> None:
        files = trial.folder.parents[1]
        wait_for(lambda: len(list(files.glob("trial-*"))) == 2, "both workers to have one")
        names = [path.name for path in files.iterdir()]
        total = float(data.sum())
        seen = mapping_of(data.ctypes.data)
        print(json.dumps({"seen": seen, "names": names}))
        data[1] = -1.0  # in a copy of this page
        trial.report(total, model=data[:3])

    check = Constraint("g", upper=0.5, check=lambda model: float(data[0]))
    tune(train, study, xs=[1.0, 2.0], workers=2, constraints=[check])
    assert [row["objective"] for row in report_rows(study)] == [float(DATA.sum())] * 2
    assert [row["value"] for row in rows(study, "SELECT value FROM checks")] == [0.0] * 2
    for trial in (1, 2):
        said = json.loads(log_of(study, trial))
        assert "code.pkl" not in said["names"]
        assert "study.db.files/code.pkl (deleted)" in said["seen"]["file"]
        assert said["seen"]["Anonymous:"] == "0 kB"  # no page of it was copied
    assert DATA[1] == 1.0


class Looks(StudyCallback):
    """Looks at the study from outside while it runs."""

    def __init__(self, study: Path) -> None:
        self._study = study
        self.ledgers: list[Any] = []
        self.texts: list[str] = []

    def on_report(self, trial: int, report: Any, decision: Any) -> None:
        result = acetune.load(self._study)
        self.ledgers.append(result.ledger)
        self.texts.append(str(result))


def test_its_size_is_told_while_it_is_there(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, looks, events = DATA, Looks(study), Events()
    monkeypatch.setattr(tuning, "_MUCH_CODE", 1_000_000)
    result = tune(lambda t: t.report(float(data[1])), study, callbacks=[looks, events])
    assert DATA.nbytes < looks.ledgers[0].code_bytes <= looks.ledgers[0].disk_bytes
    assert "8 MB of code and data for the workers until it ends" in looks.texts[0]
    assert result.ledger.code_bytes == result.ledger.disk_bytes == 0
    assert acetune.load(study).ledger.disk_bytes == 0
    (notice,) = (text for text in events.notices if "close over" in text)
    assert "8 MB of data" in notice and "load the data inside train" in notice
    quiet = Events()
    tune(lambda t: t.report(1.0), study.with_name("small.db"), callbacks=[quiet])
    assert not quiet.notices


def test_a_full_disk_is_an_error_with_a_way_out(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_local_workers, "write_code", full)
    data = DATA
    with pytest.raises(StudyError, match=r"\(8 MB\), cannot be written .* No space left.*inside"):
        tune(lambda t: t.report(float(data[1])), study)
