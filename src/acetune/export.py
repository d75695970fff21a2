"""Studies for other tools: CSV, Parquet, and a study of Optuna.

::

    acetune.export.to_csv("fair.db", "fair")            # a folder of tables
    acetune.export.to_parquet("fair.db", "trials.parquet")
    study = acetune.export.to_optuna("fair.db", "optuna.db")
"""

from acetune.study.export import FORMATS, Format, format_of, to_csv, to_optuna, to_parquet

__all__ = ["FORMATS", "Format", "format_of", "to_csv", "to_optuna", "to_parquet"]
