"""The command run within the tests' own process: starting Python anew takes most of the time."""

from __future__ import annotations

import sys

import pytest

from acetune.cli import main


class Command:
    """``acetune``, as it would behave on a terminal that is 80 columns wide."""

    def __init__(self, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self._capsys, self._patch = capsys, patch
        self.status: object = None  # of the last call
        patch.setenv("COLUMNS", "80")

    def __call__(self, *arguments: object, ok: bool = True) -> tuple[str, str]:
        """Standard output and standard error."""
        self._patch.setattr(sys, "argv", ["acetune", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = self._capsys.readouterr()
        self.status = end.value.code or 0
        assert (not end.value.code) is ok, printed.out + printed.err
        return printed.out, printed.err

    def refuses(self, *arguments: object) -> str:
        """What it complains about: in plain words, as its only output."""
        printed, complaint = self(*arguments, ok=False)
        assert not printed and complaint.startswith("acetune: ")
        assert "Traceback" not in complaint
        return complaint.removeprefix("acetune: ")
