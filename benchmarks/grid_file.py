"""The scores of a grid on disk: one line of JSON a cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from acetune.core.errors import AcetuneError
from benchmarks.grid_cells import GridCell, Score, Scores

_DIGITS = 5


def write_scores(path: Path, about: Mapping[str, Any], scores: Scores) -> None:
    """Write, or replace, a file; ``about`` says how they were made. Never half of it is seen."""
    lines = [
        json.dumps({**asdict(cell), "scores": {p: _numbers(s) for p, s in by_policy.items()}})
        for cell, by_policy in scores.items()
    ]
    head = json.dumps({**about, "columns": Score._fields}, indent=1, ensure_ascii=False)
    text = head.removesuffix("\n}") + ',\n "cells": [\n' + ",\n".join(lines) + "\n ]\n}\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".partial")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise AcetuneError(f"cannot write {path}: {error.strerror}") from None


def _numbers(score: Score) -> list[float]:
    return [round(number, _DIGITS) for number in score]


def read_scores(path: Path) -> tuple[dict[str, Any], Scores]:
    """What was written: how the scores were made, and the scores."""
    try:
        about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        cells, columns = about.pop("cells"), about.pop("columns")
        scores: Scores = {}
        for cell in cells:
            by_policy = cell.pop("scores")
            scores[GridCell(**cell)] = {
                policy: Score(**dict(zip(columns, numbers, strict=True)))
                for policy, numbers in by_policy.items()
            }
    except OSError as error:
        raise AcetuneError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AcetuneError(f"{path} does not hold the scores of a grid: {error}") from None
    return about, scores
