"""Many trials at once into Optuna's database.

``Study.add_trial`` asks the database before each value it writes: minutes for what takes seconds
here. The tables are Optuna's own models, which are private; they are used in this file only, and
tests compare what is read back with what ``add_trial`` would have written.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import sqlalchemy
from optuna.distributions import distribution_to_json
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial
from sqlalchemy.orm import Session

_TRIALS = 500  # in one go: what is held in memory


def add_trials(storage: RDBStorage, study_name: str, trials: Iterable[FrozenTrial]) -> None:
    """Add trials to a study that has none yet, as one transaction: all of them or none."""
    study_id = storage.get_study_id_from_name(study_name)
    with Session(storage.engine) as session:
        number, left = 0, iter(trials)
        while some := list(islice(left, _TRIALS)):
            _add(session, study_id, number, some)
            number += len(some)
        session.commit()


def _add(session: Session, study_id: int, first: int, trials: list[FrozenTrial]) -> None:
    rows = [
        models.TrialModel(
            study_id=study_id,
            number=number,
            state=trial.state,
            datetime_start=trial.datetime_start,
            datetime_complete=trial.datetime_complete,
        )
        for number, trial in enumerate(trials, first)
    ]
    session.add_all(rows)
    session.flush()  # gives them their ids
    described: dict[int, str] = {}  # the distributions are the same objects for all trials
    children: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row, trial in zip(rows, trials, strict=True):
        for model, columns in _children(trial, described):
            children[model].append({"trial_id": row.trial_id, **columns})
    for model, made in children.items():
        session.execute(sqlalchemy.insert(model.__table__), made)
    session.expunge_all()


def _children(
    trial: FrozenTrial, described: dict[int, str]
) -> Iterator[tuple[type[Any], dict[str, Any]]]:
    """The rows that belong to a trial, each with its table."""
    if trial.values is not None:
        value, kind = models.TrialValueModel.value_to_stored_repr(trial.values[0])
        yield models.TrialValueModel, {"objective": 0, "value": value, "value_type": kind}
    for name, value in trial.params.items():
        distribution = trial.distributions[name]
        if id(distribution) not in described:
            described[id(distribution)] = distribution_to_json(distribution)
        columns = {"param_name": name, "param_value": distribution.to_internal_repr(value)}
        columns["distribution_json"] = described[id(distribution)]
        yield models.TrialParamModel, columns
    for model, attributes in (
        (models.TrialUserAttributeModel, trial.user_attrs),
        (models.TrialSystemAttributeModel, trial.system_attrs),
    ):
        for key, value in attributes.items():
            yield model, {"key": key, "value_json": json.dumps(value)}
    intermediate = models.TrialIntermediateValueModel
    for step, objective in trial.intermediate_values.items():
        stored, its = intermediate.intermediate_value_to_stored_repr(objective)
        columns = {"step": step, "intermediate_value": stored, "intermediate_value_type": its}
        yield intermediate, columns


def delete_study(storage: RDBStorage, study_name: str) -> None:
    """Delete a study; ``optuna.delete_study`` would load every value of it first."""
    study_id = storage.get_study_id_from_name(study_name)
    trials = sqlalchemy.select(models.TrialModel.trial_id).where(
        models.TrialModel.study_id == study_id
    )
    with Session(storage.engine) as session:
        for model in (
            models.TrialValueModel,
            models.TrialParamModel,
            models.TrialUserAttributeModel,
            models.TrialSystemAttributeModel,
            models.TrialIntermediateValueModel,
            models.TrialHeartbeatModel,
        ):
            table = model.__table__
            session.execute(sqlalchemy.delete(table).where(table.c.trial_id.in_(trials)))
        table = models.TrialModel.__table__
        session.execute(sqlalchemy.delete(table).where(table.c.study_id == study_id))
        session.commit()
    storage.delete_study(study_id)
