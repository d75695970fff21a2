"""What fresh data lets one claim: bounds for each kind of metric, the test, and its account.

Nothing here reads files or clocks. ``evidence.py`` has what was measured on fresh rows, each kind
with its own test, and ``group_rates.py`` that of groups; ``share_and_mean.py`` what users return;
``candidates.py`` says which candidates are tested, and in which order; ``account.py`` how the
probability of an error is spent over several looks; ``planning.py`` how many rows are needed.
"""
