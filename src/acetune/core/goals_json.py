"""Goals as JSON: the words in which a study file keeps them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from acetune.core.goals import Constraint, Goals, Objective


def goals_to_json(goals: Goals, on_config: Sequence[Constraint] = ()) -> tuple[str, str]:
    """Objective and all constraints as the study file keeps them."""
    objective = {"name": goals.objective.name, "mode": goals.objective.mode}
    constraints = [
        {
            "name": c.name,
            "upper" if c.lower is None else "lower": float(c.limit),
            "margin_se": float(c.margin_se),
            "scale": None if c.scale is None else float(c.scale),
            "on": c.on,
        }
        for c in (*goals.constraints, *on_config)
    ]
    return json.dumps(objective), json.dumps(constraints)


def goals_from_json(objective: str, constraints: str) -> Goals:
    """The inverse of :func:`goals_to_json`; the checks themselves are not in the file."""
    return Goals(
        Objective(**json.loads(objective)),
        tuple(Constraint(**c) for c in json.loads(constraints) if c["on"] == "model"),
    )
