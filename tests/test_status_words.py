"""What may be claimed about an answer is said in the same four words wherever it is shown.

The studies are real: a search, kept models, and ``confirm`` on them. In a study of Optuna and in a
Tuner of Ray nobody looks at fresh data; their own tests look at the word there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, expect

import acetune
from acetune import ACE, Constraint, Estimate, Share
from acetune.cli import app
from acetune.cli.exits import ExitCode
from acetune.export import to_optuna
from acetune.report.html import write_report
from acetune.study.summary import summary_html, summary_rows
from browser import browsing, opened
from dashboard.serving import asking, serving
from run.helpers import by_hand, g_of, tune

FRESH = {
    "certified": Estimate(1.0, 0.1),
    "holds": Estimate(1.95, 0.1),
    "broken": Estimate(2.5, 0.1),
    "unconfirmed": None,
}
ENOUGH = {
    "certified": ("certified", "holds", "feasible"),
    "holds": ("holds", "feasible"),
    "unconfirmed": ("feasible",),
    "broken": (),
}
BADGE = {
    "certified": ("good", "certified at level 5 % (approximate)"),
    "holds": ("quiet", "holds on fresh data, not certified"),
    "broken": ("bad", "broken: a limit is broken on fresh data"),
    "unconfirmed": ("quiet", "feasible, unconfirmed"),
}
every_status = pytest.mark.parametrize("status", FRESH)


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A study that ended with each of the statuses."""
    made = {}
    for status, value in FRESH.items():
        made[status] = study = tmp_path_factory.mktemp(status) / "study.db"
        result = tune(
            by_hand([[(3.0, 1.0)], [(1.0, 1.0)]]),
            study,
            xs=range(2),
            policy=ACE(truncation=0, interval=1, gate=False),
            constraints=[Constraint("g", upper=2, check=g_of)],
            confirm=None if value is None else lambda model, value=value: {"g": value},
        )
        assert result.status == status
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


def call(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def trial_of(study: Path) -> int:
    """The trial whose status is that of the study: the answer, or the best that was rejected."""
    result = acetune.load(study)
    found = result.best or result.rejected
    assert found is not None
    return found.trial


def shown(study: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call("show", study, "--json").output)
    return found


def exported(study: Path, folder: Path, name: str) -> Path:
    output = folder / name
    done = call("export", study, "-o", output)
    assert done.exit_code == 0, done.output
    return output


def of_trial(study: Path, table: pd.DataFrame) -> str:
    row = table[table["trial"] == trial_of(study)]
    assert len(row) == 1
    return str(row["confirmation"].iloc[0])


def listed(study: Path, candidates: list[dict[str, Any]]) -> str:
    (found,) = [one["status"] for one in candidates if one["trial"] == trial_of(study)]
    return str(found)


def of_optuna(study: Path, trial: bool) -> str:
    made = to_optuna(study)
    if not trial:
        return str(made.user_attrs["status"])
    (found,) = [t for t in made.trials if t.user_attrs["trial"] == trial_of(study)]
    return str(found.user_attrs["confirmation"])


def answered(study: Path) -> dict[str, Any]:
    with asking(study) as client:
        found: dict[str, Any] = client.get("/api/content").json()["answer"]
    return found


#: where the word itself is found: study and an empty folder to it
PLACES: dict[str, Callable[[Path, Path], str | None]] = {
    "result": lambda study, _: acetune.load(study).status,
    "summary": lambda study, _: dict(summary_rows(acetune.load(study)))["status"].split(":")[0],
    "show --json": lambda study, _: shown(study)["status"],
    "show --json, candidates": lambda study, _: listed(study, shown(study)["candidates"]),
    "csv": lambda study, folder: of_trial(study, pd.read_csv(exported(study, folder, "t.csv"))),
    "parquet": lambda study, folder: of_trial(
        study, pd.read_parquet(exported(study, folder, "t.parquet"))
    ),
    "folder of csv": lambda study, folder: json.loads(
        (exported(study, folder, "out") / "study.json").read_text()
    )["status"],
    "Optuna's study": lambda study, _: of_optuna(study, trial=False),
    "Optuna's trial": lambda study, _: of_optuna(study, trial=True),
    "dashboard": lambda study, _: answered(study)["status"],
    "dashboard, candidates": lambda study, _: listed(study, answered(study)["candidates"]),
}


@every_status
@pytest.mark.parametrize("place", PLACES)
def test_the_word(studies: dict[str, Path], tmp_path: Path, status: str, place: str) -> None:
    assert PLACES[place](studies[status], tmp_path) == status


@every_status
def test_it_is_read(studies: dict[str, Path], status: str) -> None:
    """Also in a notebook and on a terminal; of the other words none stands alone there."""
    study = studies[status]
    row = re.compile(rf"status\W+{status}\b")
    printed = call("show", study).output
    assert row.search(printed) and row.search(str(acetune.load(study)))
    cells = re.sub("<[^>]+>", " ", summary_html(acetune.load(study)))
    assert row.search(cells)
    if status != "certified":
        # a certificate is only spoken of as what there is none of
        said = re.sub(r"\s+", " ", printed)
        assert "is certified to keep" not in said and "certified on fresh data" not in said


@every_status
def test_a_pipeline_asks_for_it(studies: dict[str, Path], status: str) -> None:
    for required in ("certified", "holds", "feasible"):
        done = call("show", studies[status], "--require", required)
        other = ExitCode.REJECTED if status == "broken" else ExitCode.NOT_ENOUGH
        assert done.exit_code == (0 if required in ENOUGH[status] else other)
        assert status in done.output
    assert call("show", studies[status], "--require", "perfect").exit_code == ExitCode.USAGE
    account = shown(studies[status])["account"]
    assert account["confidence"] == 0.95
    assert len(account["looks"]) == (FRESH[status] is not None)


@pytest.mark.parametrize("exact", [True, False])
def test_an_approximate_certificate_is_told_from_an_exact_one(tmp_path: Path, exact: bool) -> None:
    """Where people look first: the summary, the badge, and what a pipeline asks for."""
    study = tmp_path / "study.db"
    tune(
        by_hand([[(3.0, 0.5)]]),
        study,
        xs=range(1),
        policy=ACE(truncation=0, interval=1, gate=False),
        constraints=[Constraint("g", upper=0.9, check=g_of)],
        confirm=lambda model: {"g": Share(1, 100) if exact else Estimate(0.01, 0.1)},
    )
    row = dict(summary_rows(acetune.load(study)))["status"]
    page = write_report(study, tmp_path / "page.html").read_text()
    badge = re.search(r'class="badge badge-good">([^<]*)<', page)
    assert badge is not None
    every = ("certified", "certified-exact", "holds")
    asked = {words: call("show", study, "--require", words) for words in every}
    assert asked["certified"].exit_code == asked["holds"].exit_code == 0
    assert shown(study)["approximate"] == (not exact)
    if exact:
        assert row == "certified" and badge[1] == "certified at level 5 %"
        assert asked["certified-exact"].exit_code == 0
        assert asked["certified"].stderr == f"{study}: certified\n"
        return
    assert row.startswith("certified: approximate") and badge[1].endswith(" % (approximate)")
    assert asked["certified"].stderr == f"{study}: certified (approximate)\n"
    assert asked["certified-exact"].exit_code == ExitCode.NOT_ENOUGH
    assert "certified (approximate), and certified-exact is required" in (
        asked["certified-exact"].stderr
    )


@every_status
@pytest.mark.parametrize("page", ["report", "dashboard"])
def test_pages_say_it(
    studies: dict[str, Path], tmp_path: Path, browser: Browser, status: str, page: str
) -> None:
    kind, text = BADGE[status]

    def look(address: Path | str) -> None:
        with opened(browser, address) as watched:
            badge = watched.page.locator("#answer .badge")
            expect(badge).to_have_text(text)
            expect(badge).to_have_class(f"badge badge-{kind}")
            uses = watched.page.locator("#confirmations tbody")
            if FRESH[status] is None:
                expect(watched.page.locator("#confirmations")).to_contain_text("Nothing was conf")
            else:
                expect(uses).to_contain_text(status)
            assert not watched.complaints

    if page == "report":
        look(write_report(studies[status], tmp_path / "report.html"))
        return
    with serving(studies[status]) as server:
        look(f"http://127.0.0.1:{server.address.port}/")
