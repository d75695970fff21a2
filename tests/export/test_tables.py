"""CSV and Parquet: the tables say what the study file says."""

from __future__ import annotations

import csv
import json
import math
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal

import acetune
from acetune import Constraint, Estimate
from acetune.core.errors import AcetuneError, MissingExtraError, StudyFileError
from acetune.core.goals import FailedCheck
from acetune.export import to_csv, to_parquet
from acetune.study.store import Store
from export.kit import BEGAN, writing
from run.helpers import rows
from synthetic_study import append_reports, make_study

HOSTILE = 'a "quoted"\r\nline,\rand =1+1;\tend\n'
NAN = math.nan


def cells(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Attempts, rejected trials, failed checks, three constraints (one a lower limit)."""
    path = tmp_path_factory.mktemp("large") / "study.db"
    return make_study(path, trials=120, reports=3000, constraints=3, running=2)


@pytest.fixture(scope="module")
def tables(large: Path) -> dict[str, dict[str, pd.DataFrame]]:
    """All three tables as pandas reads them, by format."""
    to_csv(large, large.parent / "csv")
    to_parquet(large, large.parent / "parquet")
    names = ("trials", "reports", "checks")
    return {
        "csv": {n: pd.read_csv(large.parent / "csv" / f"{n}.csv") for n in names},
        "parquet": {n: pd.read_parquet(large.parent / "parquet" / f"{n}.parquet") for n in names},
    }


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_trials_are_those_of_the_result(
    kind: str, large: Path, tables: dict[str, dict[str, pd.DataFrame]]
) -> None:
    expected = acetune.load(large).trials.drop(columns=["least_violation", "started", "ended"])
    expected["training_s"] = expected["training_s"].fillna(0.0)  # of those that never trained
    found = tables[kind]["trials"].set_index("trial")

    assert list(found.index) == list(range(1, 121))
    assert_frame_equal(
        found[expected.columns].fillna(NAN).replace("", NAN),  # no reason yet
        expected.fillna(NAN).replace("", NAN),
        check_dtype=False,
        rtol=1e-12,
    )
    with_retry = found["attempts"] > 1
    assert with_retry.any() and (found["state"] == "rejected").any()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_checkpoint_of_each_trial_is_the_best_valid_one_or_the_nearest_miss(
    kind: str, large: Path, tables: dict[str, dict[str, pd.DataFrame]]
) -> None:
    found = tables[kind]["trials"].set_index("trial")
    result = acetune.load(large)

    assert len(result.candidates) > 1 and result.nearest_miss is not None
    for one in [*result.candidates, result.nearest_miss]:
        row = found.loc[one.trial]
        if one is result.nearest_miss and row["stratum"] == "valid":
            continue  # then the valid one counts
        assert row["found_step"] == one.step and row["found_objective"] == one.value
        assert row["violation"] == one.violation
        for name, measured in one.constraints.items():
            assert row[f"constraint.{name}"] == measured.value
            assert row[f"stderr.{name}"] == measured.stderr
    assert result.best is not None
    assert found.loc[result.best.trial, "confirmation"] == result.best.status
    assert (found["stratum"] == "valid").sum() == found["best_valid_objective"].notna().sum()
    assert set(found["stratum"]) == {"valid", "invalid", "unchecked"}


def test_reports_and_checks_are_the_rows_of_the_study_file(
    large: Path, tables: dict[str, dict[str, pd.DataFrame]]
) -> None:
    reports = pd.DataFrame(rows(large, "SELECT * FROM reports ORDER BY seq"))
    checks = pd.DataFrame(
        rows(
            large,
            'SELECT seq, trial, attempt, checked_step AS step, "constraint", value, stderr, '
            "c.cost_s, error, margin_se, note FROM checks c JOIN reports USING (seq) "
            "ORDER BY seq, 5",
        )
    )
    times = pd.to_datetime(reports.pop("time"), unit="s", utc=True)
    for found in tables.values():
        written = found["reports"].copy()
        moment = pd.to_datetime(written.pop("time"), utc=True)
        assert (moment - times).abs().max() < pd.Timedelta("2us")
        assert_frame_equal(written.fillna(NAN), reports.fillna(NAN), check_dtype=False)
        assert_frame_equal(found["checks"].fillna(NAN), checks.fillna(NAN), check_dtype=False)
    assert reports["objective"].isna().any() and checks["error"].notna().any()


def test_parquet_has_real_types_and_the_goals(large: Path, tables: object) -> None:
    schema = pq.read_schema(large.parent / "parquet" / "trials.parquet")

    types = {name: str(schema.field(name).type) for name in schema.names}
    assert types["param.lr"] == "double" and types["param.layers"] == "int64"
    assert types["param.batch_norm"] == "bool" and types["param.activation"] == "string"
    assert types["started"] == "timestamp[us, tz=UTC]" and types["trial"] == "int64"
    for table in ("trials", "reports", "checks"):
        metadata = pq.read_schema(large.parent / "parquet" / f"{table}.parquet").metadata
        info = json.loads(metadata[b"acetune"])
        assert info["objective"] == {"name": "auc", "mode": "max"}
        assert [c["name"] for c in info["constraints"]] == ["gap", "p95_ms", "recall"]
        assert info["settings"]["searcher"] == "tpe" and info["policy"]["name"] == "ACE"
    assert json.loads((large.parent / "csv" / "study.json").read_text()) == info


def test_a_single_file_has_the_trials(large: Path, tmp_path: Path, tables: Any) -> None:
    assert to_csv(large, tmp_path / "t.csv") == [tmp_path / "t.csv"]
    assert to_parquet(large, tmp_path / "t.parquet") == [tmp_path / "t.parquet"]

    assert (tmp_path / "t.csv").read_bytes() == (large.parent / "csv/trials.csv").read_bytes()
    assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), tables["parquet"]["trials"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.parquet"]


def test_values_by_hand(study: Path, tmp_path: Path) -> None:
    limits = [Constraint("g", upper=2.0, margin_se=1.0), Constraint("h", lower=0.5)]
    with writing(study, limits) as author:
        author.run(
            1,
            {"x": 0.5},
            [
                (9.0, {"g": 1.0, "h": 0.6}),
                (NAN, None),
                (7.0, {"g": Estimate(1.5, 0.25), "h": 0.5}),
                (5.0, {"g": Estimate(1.9, 0.2), "h": 0.5}),
                (math.inf, None),
            ],
        )
        author.run(2, {"x": 0.25}, [(3.0, {"g": FailedCheck("broken"), "h": 1.0})], "failed", "no")
        with author.store.transaction():
            author.store.add_confirmation(1, 1, 3, "broken", {"g": (2.5, 0.1)}, None, BEGAN)
    to_csv(study, tmp_path / "out")
    first, second = cells(tmp_path / "out/trials.csv")

    assert (first["best_objective"], first["best_valid_objective"]) == ("5.0", "7.0")
    assert (first["found_step"], first["violation"], first["stratum"]) == ("3", "0.0", "valid")
    assert (first["constraint.g"], first["stderr.g"]) == ("1.5", "0.25")
    assert (first["constraint.h"], first["stderr.h"]) == ("0.5", "0.0")
    assert (first["startup_s"], first["training_s"]) == ("0.25", "2.5")
    assert float(first["checks_s"]) == pytest.approx(0.6)
    assert float(first["snapshots_s"]) == pytest.approx(0.05)
    assert pd.Timestamp(first["started"]).timestamp() == BEGAN
    assert (second["state"], second["reason"]) == ("failed", "no")
    assert (second["violation"], second["constraint.g"]) == ("inf", "")
    assert second["best_valid_objective"] == "" and second["confirmation"] == ""
    told = json.loads((tmp_path / "out/study.json").read_text())
    assert (told["outcome"], told["answer"]) == ("rejected", None)
    (use,) = told["confirmations"]
    assert (use["trial"], use["step"], use["status"]) == (1, 3, first["confirmation"])
    assert use["metrics"] == {"g": [2.5, 0.1]}
    reports = cells(tmp_path / "out/reports.csv")
    assert [row["objective"] for row in reports] == ["9.0", "nan", "7.0", "5.0", "inf", "3.0"]
    to_parquet(study, tmp_path / "out")
    objective = pd.read_parquet(tmp_path / "out/reports.parquet")["objective"]
    assert math.isnan(objective[1]) and objective[4] == math.inf
    assert cells(tmp_path / "out/checks.csv")[-2]["error"] == "broken"


@pytest.mark.parametrize(
    "value", [HOSTILE, "=HYPERLINK(1)", "-1+1", "@SUM(1)", "ünï ☃ 名", "\ud800"]
)
def test_text_stays_what_it_is(value: str, study: Path, tmp_path: Path) -> None:
    kept = value.encode("utf-8", "backslashreplace").decode()  # a half character has no UTF-8
    space = {value: {"choice": [value, "b"]}}
    with writing(study, [Constraint(kept + "g", upper=2.0)], space=space) as author:
        author.run(1, {value: value}, [(1.0, {kept + "g": 1.5})], "stopped", value)
    to_csv(study, tmp_path / "out")
    to_parquet(study, tmp_path / "out")

    (row,) = cells(tmp_path / "out/trials.csv")
    assert row[f"param.{kept}"] == kept and row["reason"] == kept
    assert row[f"constraint.{kept}g"] == "1.5"
    assert cells(tmp_path / "out/checks.csv")[0]["constraint"] == kept + "g"
    frame = pd.read_csv(tmp_path / "out/trials.csv")
    assert frame[f"param.{kept}"].tolist() == [kept]
    assert pd.read_parquet(tmp_path / "out/trials.parquet")[f"param.{kept}"].tolist() == [kept]


def test_parameters_of_any_kind(study: Path, tmp_path: Path) -> None:
    with writing(study, space={}) as author:
        author.run(1, {"list": [1, "a"], "mixed": 1, "huge": 2**70, "none": None}, [(1.0, None)])
        author.run(2, {"list": [2], "mixed": "a", "late": 0.5, "half": 1}, [(1.0, None)])
        author.run(3, {"half": 0.5, "flag": True}, [(1.0, None)])
    to_csv(study, tmp_path / "t.csv")
    to_parquet(study, tmp_path / "t.parquet")

    frame = pq.read_table(tmp_path / "t.parquet").to_pydict()
    assert frame["param.list"] == ['[1, "a"]', "[2]", None]
    assert frame["param.mixed"] == ["1", "a", None]
    assert frame["param.huge"] == [str(2**70), None, None]
    assert frame["param.none"] == [None, None, None]
    assert frame["param.late"] == [None, 0.5, None]
    assert frame["param.half"] == [None, 1.0, 0.5] and frame["param.flag"] == [None, None, True]
    written = cells(tmp_path / "t.csv")
    assert [row["param.list"] for row in written] == ['[1, "a"]', "[2]", ""]
    assert [row["param.half"] for row in written] == ["", "1", "0.5"]


@pytest.mark.parametrize("constraints", [[], [Constraint("g", upper=2.0)]])
def test_an_empty_study_has_empty_tables(
    constraints: list[Constraint], study: Path, tmp_path: Path
) -> None:
    with writing(study, constraints):
        pass
    to_csv(study, tmp_path / "out")
    to_parquet(study, tmp_path / "out")

    for name in ("trials", "reports", "checks"):
        assert cells(tmp_path / "out" / f"{name}.csv") == []
        table = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        assert table.num_rows == 0
        header = (tmp_path / "out" / f"{name}.csv").read_text().splitlines()[0]
        assert header.split(",") == table.column_names
    assert ("constraint.g" in table.column_names) is False
    trials = pq.read_table(tmp_path / "out/trials.parquet").column_names
    assert ("constraint.g" in trials) is bool(constraints) and "param.x" in trials


def test_an_earlier_attempt_keeps_what_it_found(study: Path, tmp_path: Path) -> None:
    with writing(study) as author:
        author.run(1, {"x": 0.1}, [(4.0, {"g": 1.0}), (9.0, None)], "interrupted", "cut")
        author.run(1, {"x": 0.1}, [(8.0, {"g": 3.0})], attempt=2)
    to_csv(study, tmp_path / "t.csv")
    (row,) = cells(tmp_path / "t.csv")

    assert (row["attempts"], row["state"], row["last_step"]) == ("2", "finished", "1")
    assert (row["best_objective"], row["best_valid_objective"]) == ("8.0", "4.0")
    assert (row["found_attempt"], row["found_step"]) == ("1", "1")
    assert (row["training_s"], row["startup_s"]) == ("1.5", "0.5")


def test_a_running_study_is_read_from_one_state(study: Path, tmp_path: Path) -> None:
    """What is written while the export goes on is in none of its tables."""
    make_study(study, trials=20, reports=300, running=1)
    from acetune.study.export._gathered import gathering

    with closing(Store.open(study)), gathering(study) as gathered:  # its driver has it open
        passing = gathered.reports()
        next(passing)
        append_reports(study, 50)
        seen = 1 + sum(1 for _ in passing)
        trials = gathered.trials
    assert (seen, len(trials)) == (300, 20)

    with gathering(study) as gathered:
        assert sum(1 for _ in gathered.reports()) == 350
        assert len(gathered.trials) == 21


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(("write", "name"), [(to_csv, "t.csv"), (to_parquet, "t.parquet")])
def test_nothing_is_overwritten_unless_asked(
    write: Any, name: str, study: Path, tmp_path: Path
) -> None:
    with writing(study) as author:
        author.run(1, {"x": 0.1}, [(4.0, {"g": 1.0})])
    path = tmp_path / name
    path.write_text("precious")
    with pytest.raises(AcetuneError, match=f"{name} exists; give another name, or .* --force"):
        write(study, path)
    assert path.read_text() == "precious"
    write(study, path, force=True)
    assert path.read_bytes() != b"precious"


def test_a_folder_keeps_its_other_files(study: Path, tmp_path: Path) -> None:
    with writing(study) as author:
        author.run(1, {"x": 0.1}, [(4.0, {"g": 1.0})])
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    to_csv(study, folder)
    with pytest.raises(AcetuneError, match=r"trials\.csv exists"):
        to_csv(study, folder)
    to_csv(study, folder, force=True)
    found = {"checks.csv", "notes.txt", "reports.csv", "study.json", "trials.csv"}
    assert {path.name for path in folder.iterdir()} == found


@pytest.mark.parametrize("write", [to_csv, to_parquet])
def test_a_study_file_is_never_overwritten(write: Any, tmp_path: Path) -> None:
    study = tmp_path / f"study.{'csv' if write is to_csv else 'parquet'}"
    with writing(study):
        pass
    before = study.read_bytes()
    with pytest.raises(AcetuneError, match="is a study file"):
        write(study, study, force=True)
    assert study.read_bytes() == before


def test_a_damaged_study_leaves_nothing_behind(study: Path, tmp_path: Path) -> None:
    with writing(study) as author:
        author.run(1, {"x": 0.1}, [(4.0, {"g": 1.0})])
    store = Store.open(study)
    with store.transaction():
        store.add_report((7, 1, "step", 1, 1.0, None, None, None, "unchecked", 1, 1, "continue",
                          0.5, 0.0, 1.0, None))  # fmt: skip
    store.close()
    out = tmp_path / "out"
    with pytest.raises(StudyFileError, match="damaged"):
        to_csv(study, out)
    assert not out.exists()
    with pytest.raises(StudyFileError, match="there is no study file"):
        to_csv(tmp_path / "nothing.db", tmp_path / "t.csv")


def test_parquet_says_what_to_install(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(study):
        pass
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'acetune\[replay\]'"):
        to_parquet(study, tmp_path / "t.parquet")
