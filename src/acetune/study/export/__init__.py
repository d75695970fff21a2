"""Studies for other tools: CSV, Parquet, and a study of Optuna; public as ``acetune.export``.

A study file is read once, from one state, also while the study is running; ``_gathered`` does that,
and ``_tables`` says what the tables hold.
"""

from __future__ import annotations

from acetune.study.export._optuna_study import to_optuna
from acetune.study.export._tables import to_csv, to_parquet
from acetune.study.export.destinations import FORMATS, Format, format_of

__all__ = ["FORMATS", "Format", "format_of", "to_csv", "to_optuna", "to_parquet"]
