"""Recorded learning curves, and policies side by side on them on a simulated clock.

>>> made = synthetic_table(configs=40, seed=1)
>>> simulate(made.table, "ace", budget_s=20.0).trials > 4
True
"""

from acetune.replay.compare import Setting, compare
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.replay.from_study import table_from_study
from acetune.replay.judged_table import JudgedTable, judge, parse_limit
from acetune.replay.recorder import record
from acetune.replay.runs import Run, Summary, summarise
from acetune.replay.simulator import simulate
from acetune.replay.synthetic import synthetic_table
from acetune.replay.table_file import read_table, write_table
from acetune.replay.training import Task

__all__ = [
    "CurveTable",
    "JudgedTable",
    "Run",
    "Setting",
    "Summary",
    "TableConstraint",
    "Task",
    "compare",
    "judge",
    "make_table",
    "parse_limit",
    "read_table",
    "record",
    "simulate",
    "summarise",
    "synthetic_table",
    "table_from_study",
    "write_table",
]
