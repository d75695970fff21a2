"""The study file: its one store, its one reader, and the result in numbers and words.

Nothing else opens a study file, and nothing else imports ``sqlite3``. This file imports nothing, so
that :mod:`acetune.study.read_ahead` can begin to read before the rest is imported.
"""
