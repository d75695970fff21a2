"""The paper's experiments again, ours beside theirs: ``python -m paper``. Not installed."""
