"""Whatever a training function does hurts its own trial only, and the reason is the true one."""

from __future__ import annotations

from pathlib import Path

import pytest

from run.misbehaviour import MISBEHAVIOUR, require_hurt_itself_only, run_misbehaving

NAMES = list(MISBEHAVIOUR)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All rows in one study, one after the other."""
    path = tmp_path_factory.mktemp("misbehaving") / "study.db"
    run_misbehaving(path, NAMES)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_deed_hurts_its_own_trial_only(name: str, study: Path) -> None:
    require_hurt_itself_only(study, NAMES.index(name), MISBEHAVIOUR[name].reason)
