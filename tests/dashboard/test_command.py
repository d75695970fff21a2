"""The command: it says where it is, and ends when told to."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

import acetune
from acetune.cli import app
from acetune.study.read_ahead import ReadAhead
from synthetic_study import make_study


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, and the first line that it prints."""
    command = [sys.executable, "-m", "acetune", "dashboard", *arguments, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


@pytest.mark.parametrize("listening", [False, True])
def test_it_prints_its_address_and_ends_by_ctrl_c(finished: Path, listening: bool) -> None:
    with started(str(finished)) as (process, line):
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert found is not None, line
        assert httpx.get(found[0], timeout=20).status_code == 200
        with contextlib.ExitStack() as open_page:
            if listening:  # an open page must not hold it up
                stream = httpx.stream("GET", found[0] + "api/events", timeout=20)
                assert next(open_page.enter_context(stream).iter_lines())
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "has ended" in out
        assert err == ""


def test_a_large_study_is_read_in_two_processes(study: Path) -> None:
    make_study(study, trials=400, reports=101_000)
    with ReadAhead(study) as ahead:
        assert ahead.last > 0  # it is large enough
    with started(str(study)) as (process, line):
        found = re.search(r"http://\S+", line)
        assert found is not None, line
        shown = httpx.get(found[0] + "api/content", timeout=60).json()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[1] == ""
    result = acetune.load(study)
    assert result.best is not None
    assert shown["study"]["seq"] == result.ledger.reports == 101_000
    assert shown["answer"]["best"]["value"] == result.best.value


def test_on_another_address_it_prints_a_token(finished: Path) -> None:
    with started(str(finished), "--host", "0.0.0.0") as (process, line):
        found = re.search(r":(\d+)/\?token=([\w-]{32})", line)
        assert found is not None, line
        here = f"http://127.0.0.1:{found[1]}/"
        assert httpx.get(here, timeout=20).status_code == 401
        assert httpx.get(f"{here}?token={found[2]}", timeout=20).status_code == 303
        assert process.stdout is not None
        assert "not encrypted" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=20) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--token", ""], "token"),
        (["--port", "70000"], "70000"),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
    ],
)
def test_what_makes_no_sense_is_refused(finished: Path, arguments: list[str], word: str) -> None:
    result = CliRunner().invoke(app, ["dashboard", str(finished), *arguments])
    assert result.exit_code == 1
    assert word in str(result.exception)


def test_a_folder_is_no_study(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["dashboard", str(tmp_path)])
    assert result.exit_code == 1
    assert "is a folder" in str(result.exception)


def test_without_its_packages_it_names_the_extra(finished: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; sys.argv = ['acetune', 'dashboard', 'x.db']; "
        "from acetune.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'acetune[dashboard]'" in done.stderr


def test_it_starts_without_packages_of_other_verbs(finished: Path) -> None:
    code = (
        "import sys, acetune.cli; sys.argv = ['acetune', 'dashboard', '--help']\n"
        "try: acetune.cli.main()\n"
        "except SystemExit: import acetune.report.dashboard\n"
        "print(sorted({'optuna', 'pandas', 'lightgbm', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
