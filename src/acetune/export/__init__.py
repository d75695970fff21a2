"""Studies for other tools: CSV, Parquet, and a study of Optuna.

::

    acetune.export.to_csv("fair.db", "fair")            # a folder of tables
    acetune.export.to_parquet("fair.db", "trials.parquet")
    study = acetune.export.to_optuna("fair.db", "optuna.db")

A study file is read once, from one state, also while the study is running; ``gathered`` does that,
and ``tables`` says what the tables hold.
"""

from __future__ import annotations

from acetune.export.as_optuna import to_optuna
from acetune.export.places import FORMATS, Format, format_of
from acetune.export.tables import to_csv, to_parquet

__all__ = ["FORMATS", "Format", "format_of", "to_csv", "to_optuna", "to_parquet"]
