"""The command run within the tests' own process: starting Python anew takes most of the time."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from acetune.cli import main


class Command:
    """``acetune``, as it would behave on a terminal that is 80 columns wide; or another command."""

    def __init__(
        self,
        capsys: pytest.CaptureFixture[str],
        patch: pytest.MonkeyPatch,
        name: str = "acetune",
        main: Callable[[], None] = main,
    ) -> None:
        self._capsys, self._patch = capsys, patch
        self.status: object = None  # of the last call
        self._name, self._main = name, main
        patch.setenv("COLUMNS", "80")

    def __call__(self, *arguments: object, ok: bool = True) -> tuple[str, str]:
        """Standard output and standard error."""
        self._patch.setattr(sys, "argv", [self._name, *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            self._main()
        printed = self._capsys.readouterr()
        self.status = end.value.code or 0
        assert (not end.value.code) is ok, printed.out + printed.err
        return printed.out, printed.err

    def refuses(self, *arguments: object) -> str:
        """What it complains about: in plain words, as its only output."""
        printed, complaint = self(*arguments, ok=False)
        assert not printed and complaint.startswith(f"{self._name}: ")
        assert "Traceback" not in complaint
        return complaint.removeprefix(f"{self._name}: ")
