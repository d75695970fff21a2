from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import acetune
from acetune.cli.demo_credit import Rows
from acetune.core.errors import AcetuneError, MissingExtraError
from acetune.searchers.space import Space
from paper.tasks.law import LawModel, LawTask, made_law, read_law, row_weights

CONFIG: dict[str, Any] = {
    "epochs": 6,
    "width": 16,
    "depth": 1,
    "activation": "relu",
    "learning_rate": 0.01,
    "batch_size": 128,
    "l2": 0.01,
    "momentum": 0.9,
    "class_balance": 0.5,
    "reweighing": 0.05,
}
HEADER = "LSAT,UGPA,ZFYA,Race_Black,Race_White,Sex_1,Sex_2,PF_0,PF_1"


@pytest.fixture(scope="module")
def task() -> LawTask:
    return made_law(4000)


class Loop:
    """What a training function needs of a trial."""

    def __init__(self, **params: Any) -> None:
        self.params = {**CONFIG, **params}
        self.aucs: list[float] = []
        self.models: list[LawModel] = []  # as they were when reported

    def steps(self, total_steps: int) -> Iterator[int]:
        return iter(range(1, total_steps + 1))

    def report(self, *, auc: float, model: LawModel, snapshot: Callable[[Any], Any]) -> None:
        self.aucs.append(auc)
        self.models.append(snapshot(model))


def trained(task: LawTask, **params: Any) -> Loop:
    loop = Loop(**params)
    task.train(loop)  # type: ignore[arg-type]
    return loop


def law_file(path: Path, students: int = 400) -> Path:
    rng = np.random.default_rng(0)
    lines = [HEADER]
    for _ in range(students):
        white, sex, passed = (int(drawn) for drawn in rng.integers(2, size=3))
        lsat, ugpa, zfya = rng.normal((37, 3.2, 0)).round(2)
        lines.append(
            f"{lsat},{ugpa},{zfya},{1 - white},{white},{sex},{1 - sex},{1 - passed},{passed}"
        )
    path.write_text("\n".join(lines))
    return path


def test_the_three_parts_share_no_student_and_the_shares_of_labels_and_groups(
    task: LawTask,
) -> None:
    parts = (task.train_rows, task.select_rows, task.confirm_rows)
    assert [len(part.y) for part in parts] == [1999, 1000, 1001]
    assert len(np.unique(np.concatenate([part.x[:, 0] for part in parts]))) == 4000
    for label in (0, 1):
        for group in (1, 2):
            shares = [np.mean((part.y == label) & (part.group == group)) for part in parts]
            assert max(shares) - min(shares) < 0.002


def test_features_are_standardised_by_the_training_rows(task: LawTask) -> None:
    assert task.train_rows.x.shape == (1999, 13)
    assert np.allclose(task.train_rows.x.mean(axis=0), 0)
    assert np.allclose(task.train_rows.x.std(axis=0), 1)


def test_a_configuration_trains_alike_every_time_whatever_the_threads(task: LawTask) -> None:
    wide = {"epochs": 1, "width": 128, "depth": 2, "batch_size": 512}
    with threadpool_limits(limits=1):
        once = trained(task, **wide)
    with threadpool_limits(limits=2):
        again = trained(task, **wide)
    assert once.aucs == again.aucs
    assert np.array_equal(once.models[-1].scores, again.models[-1].scores)


def test_a_longer_training_begins_as_a_shorter_one(task: LawTask) -> None:
    assert trained(task, epochs=4).aucs[:2] == trained(task, epochs=2).aucs


def test_learning_raises_the_auc(task: LawTask) -> None:
    aucs = trained(task).aucs
    assert aucs[-1] > 0.79
    assert aucs[-1] > aucs[0]


def test_the_limit_bites_and_reweighing_buys_fairness(task: LawTask) -> None:
    plain, fair = trained(task, reweighing=0.05), trained(task, reweighing=1.0)
    unfairness = [task.check(loop.models[-1]).value for loop in (plain, fair)]
    assert unfairness[0] > 0.3
    assert unfairness[1] < 0.2
    assert fair.aucs[-1] < plain.aucs[-1]


def test_flattened_or_shifted_scores_are_no_fairer(task: LawTask) -> None:
    model = trained(task, epochs=3).models[-1]
    flat = LawModel(None, 0.5 + model.scores / 1000)
    assert task.check(flat) == task.check(model)


def test_check_and_confirm_give_standard_errors(task: LawTask) -> None:
    model = trained(task, epochs=3).models[-1]
    assert 0 < task.check(model).stderr < 0.1
    confirmed = task.confirm(model)
    assert list(confirmed) == ["auc", "eod"]
    assert all(0 < estimate.stderr < 0.1 for estimate in confirmed.values())


def test_a_snapshot_predicts_as_at_its_own_epoch(task: LawTask) -> None:
    x = task.select_rows.x
    for model in trained(task, epochs=3).models:
        assert np.allclose(model.predict(x), model.scores)
        assert np.allclose(pickle.loads(pickle.dumps(model)).predict(x), model.scores)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_corners_of_the_space_stay_finite(task: LawTask, activation: str) -> None:
    corner = {
        name: dimension.high  # type: ignore[union-attr]
        for name, dimension in task.space.items()
        if name not in ("activation", "epochs", "batch_size")
    }
    loop = trained(task, **{**corner, "batch_size": 32, "epochs": 4, "activation": activation})
    assert np.isfinite(loop.aucs).all()
    assert np.isfinite(loop.models[-1].scores).all()


def test_the_space_fits_few_students() -> None:
    few = made_law(700)
    space = Space(few.space)
    assert space.dimensions["batch_size"].high == len(few.train_rows.y)  # type: ignore[union-attr]
    assert trained(few, epochs=1, batch_size=len(few.train_rows.y)).aucs


def test_training_in_a_study(task: LawTask, study: Path) -> None:
    result = acetune.tune(
        task.train,
        {**task.space, "epochs": 4, "width": 8, "depth": 1},
        objective="auc",
        mode="max",
        constraints=[acetune.Constraint("eod", upper=1.0, check=task.check)],
        confirm=task.confirm,
        max_trials=3,
        workers=1,
        seed=1,
        study=study,
    )
    assert result.best is not None
    assert len(result.trials) == 3


class TestWeights:
    rows = Rows(
        np.zeros((200, 1)),
        np.repeat([0.0, 1.0, 0.0, 1.0], [120, 20, 30, 30]),
        np.repeat([1, 1, 2, 2], [120, 20, 30, 30]),
    )

    def share(self, weights: np.ndarray, label: int, group: int) -> float:
        return float(weights[(self.rows.y == label) & (self.rows.group == group)].sum())

    def test_zero_leaves_the_rows_alone(self) -> None:
        assert np.allclose(row_weights(self.rows, 0.0, 0.0), 1 / 200)

    def test_full_reweighing_makes_label_and_group_independent(self) -> None:
        weights = row_weights(self.rows, 1.0, 0.0)
        rates = []
        for group in (1, 2):
            failed = self.share(weights, 1, group)
            rates.append(failed / (failed + self.share(weights, 0, group)))
        assert np.allclose(rates, 50 / 200)

    def test_full_balance_makes_labels_equal(self) -> None:
        weights = row_weights(self.rows, 0.0, 1.0)
        assert np.isclose(self.share(weights, 1, 1) + self.share(weights, 1, 2), 0.5)


class TestReading:
    def test_a_file(self, tmp_path: Path) -> None:
        read = read_law(law_file(tmp_path / "law.csv"))
        assert read.train_rows.x.shape[1] == 7  # the exam's own columns are no features
        parts = (read.train_rows, read.select_rows, read.confirm_rows)
        assert sum(len(part.y) for part in parts) == 400
        white = read.train_rows.x[:, HEADER.split(",").index("Race_White")] > 0
        assert np.array_equal(white, read.train_rows.group == 1)

    def test_labels_are_failed_exams(self, tmp_path: Path) -> None:
        path = law_file(tmp_path / "law.csv")
        failed = sum(line.endswith(",0") for line in path.read_text().splitlines())
        read = read_law(path)
        parts = (read.train_rows, read.select_rows, read.confirm_rows)
        assert sum(part.y.sum() for part in parts) == failed

    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(AcetuneError, match=r"cannot read .*absent\.csv"):
            read_law(tmp_path / "absent.csv")

    def test_not_a_csv(self, tmp_path: Path) -> None:
        path = tmp_path / "law.bin"
        path.write_bytes(bytes(range(256)))
        with pytest.raises(AcetuneError, match=r"cannot read .*law\.bin as CSV"):
            read_law(path)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "no column 'LSAT'"),
            ("LSAT,UGPA,ZFYA\n1,2,3\n", "no column 'Race_White'"),
            (HEADER + "\n", "has 0 white students who passed"),
            (HEADER + "\n1,2,3\n", "student 1 has 3 values for 9 columns"),
            (HEADER + "\n33,2.7,high,0,1,1,0,0,1\n", "student 1: .*high"),
            (HEADER + "\n33,2.7,nan,0,1,1,0,0,1\n", "student 1: 'ZFYA' is nan"),
        ],
    )
    def test_a_wrong_file(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "law.csv"
        path.write_text(text)
        with pytest.raises(AcetuneError, match=message):
            read_law(path)


def test_too_few_students_to_split() -> None:
    with pytest.raises(AcetuneError, match="at least 8 are needed to split"):
        made_law(60)


def test_without_scikit_learn(task: LawTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.neural_network", None)
    with pytest.raises(MissingExtraError, match=r"acetune\[sklearn\]"):
        trained(task)


def test_a_task_can_be_copied_to_workers(task: LawTask) -> None:
    again = pickle.loads(pickle.dumps(task))
    model = trained(task, epochs=1).models[0]
    assert again.check(copy.deepcopy(model)) == task.check(model)
