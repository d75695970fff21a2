"""``acetune plan LIMIT VALUE``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from acetune.certification import planning
from acetune.certification.account import Account, require_confidence
from acetune.cli.params import json_option
from acetune.constraints.latency import SPELL
from acetune.core.errors import GoalError
from acetune.core.formatting import number
from acetune.core.numbers import is_number
from acetune.study.claims import percent

_SLOWER = (0.0, 0.01, 0.02)  # shares of calls beyond the limit of a latency


class Need(NamedTuple):
    """How many rows a kind of metric needs, or why no number of rows will do."""

    kind: str
    returned: str
    rows: int | None
    note: str


@click.command()
@click.argument("limit", type=float, help="The limit.")
@click.argument("value", type=float, help="What you expect of the model.")
@click.option("--confidence", default=0.95, help="As tune(confidence=...).")
@click.option("--power", default=0.8, help="How likely the certificate is to be if VALUE is true.")
@click.option("--rate", default=0.3, help="Fairness: the smaller of the two groups' rates.")
@click.option("--smallest", default=0.5, help="Fairness: the smallest group's share of the rows.")
@click.option(
    "--base",
    default=1.0,
    help="Fairness: share of the rows that the rate is about, such as label 1.",
)
@click.option(
    "--deviation",
    type=float,
    help="Standard deviation of one row's value; the largest there can be.",
)
@json_option
def plan(
    limit: float,
    value: float,
    confidence: float,
    power: float,
    rate: float,
    smallest: float,
    base: float,
    deviation: float | None,
    as_json: bool,
) -> None:
    """Say how many fresh rows it takes to certify LIMIT if the model has VALUE.

    For each kind of metric, at the first look at fresh data. VALUE below LIMIT is for an upper
    limit, above it for a lower one: `acetune plan 0.25 0.22`, `acetune plan 0.8 0.9`.
    """
    require_confidence(confidence)
    for name, share in (("power", power), ("rate", rate), ("smallest", smallest), ("base", base)):
        if not 0 < share <= 1:
            raise GoalError(f"--{name} must be a share above 0, got {share}")
    for name, given in (("LIMIT", limit), ("VALUE", value)):
        if not is_number(given):
            raise GoalError(f"{name} must be a number, got {given}")
    if value == limit:
        raise GoalError(
            f"a model at {value:g} lies on its limit: no number of rows certifies that; aim for "
            "some distance"
        )
    level = Account(confidence).next_level
    needs = _needs(limit, value, level, power, rate, smallest, base, deviation)
    if as_json:
        found = {"level": level, "power": power, "needs": [need._asdict() for need in needs]}
        click.echo(json.dumps(found, indent=2))
        return
    sense = "<=" if value < limit else ">="
    table = Table(
        title=f"fresh rows to certify {sense} {limit:g} with {percent(confidence)} confidence, if "
        f"the model has {value:g}: in {percent(power)} of studies",
        title_justify="left",
    )
    for heading in ("metric", "confirm returns", "fresh rows", "note"):
        table.add_column(heading, justify="right" if heading == "fresh rows" else "left")
    for need in needs:
        rows = "never" if need.rows is None else f"{need.rows:,}"
        table.add_row(need.kind, need.returned, rows, need.note)
    Console().print(table)
    click.echo(
        f"At the first look ({percent(level)} of {percent(1 - confidence)}); a later look needs "
        "more. Rows must be drawn independently from the population that the claim is about."
    )


def _needs(
    limit: float,
    value: float,
    level: float,
    power: float,
    rate: float,
    smallest: float,
    base: float,
    deviation: float | None,
) -> list[Need]:
    shares = 0 <= limit <= 1 and 0 <= value <= 1
    spread = math.sqrt(max(0.0, value * (1 - value))) if deviation is None else deviation
    asked = (level, power)
    found = []
    if shares:
        found.append(
            _need(
                "share",
                "Share(count, rows)",
                lambda: planning.rows_for_share(value, limit, *asked),
                "exact",
            )
        )
    if shares or deviation is not None:
        known = f"a row varies by {number(spread, 3)}"
        found.append(
            _need(
                "mean of bounded losses",
                "Mean(losses)",
                lambda: planning.rows_for_mean(value, limit, *asked, spread),
                f"{known}; about",
            )
        )
        found.append(
            _need(
                "an estimate of your own",
                "Estimate(value, stderr)",
                lambda: planning.rows_for_estimate(value, limit, *asked, spread),
                f"{known}; the certificate is approximate",
            )
        )
    if shares:
        comparison: planning.Comparison = "difference" if value < limit else "ratio"
        groups = f"rates from {rate:g}; smallest group {percent(smallest)}"
        groups += "" if base == 1 else f", {percent(base)} of the rows count"
        found.append(
            _need(
                f"fairness, a {comparison} of two groups",
                "FairnessCheck(...)(model)",
                lambda: planning.rows_for_groups(
                    value, limit, *asked,
                    rate=rate, smallest=smallest, comparison=comparison, base=base,
                ),
                f"{groups}; exact test",
            )
        )  # fmt: skip
        found.append(
            _need(
                "robustness, average failure rate",
                "RobustnessCheck(...)(model)",
                lambda: planning.rows_for_clusters(value, limit, *asked),
                "source sentences, not cases",
            )
        )
    for slower in _SLOWER:
        found.append(
            _need(
                "latency, a 95th percentile",
                "LatencyCheck(...)(model)",
                partial(planning.calls_for_percentile, 95, level, slower, power, 2 * SPELL),
                f"calls, of which {percent(slower) if slower else 'none'} take longer; "
                f"{2 * SPELL} in a row count as one",
            )
        )
    return found


def _need(kind: str, returned: str, rows: Callable[[], int], note: str) -> Need:
    try:
        return Need(kind, returned, rows(), note)
    except GoalError as error:
        return Need(kind, returned, None, str(error))
