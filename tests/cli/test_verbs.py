"""The verbs: how they are listed, what is said of wrong usage, and what their options are."""

from __future__ import annotations

import typing
from pathlib import Path
from types import NoneType

import pytest

from acetune.cli import app
from acetune.cli.exits import ExitCode
from cli.inside import Command

VERBS = list(app.commands)


@pytest.mark.parametrize("name", VERBS)
def test_the_list_of_verbs_has_the_first_words_of_each(acetune: Command, name: str) -> None:
    first, _, _ = (app.commands[name].help or "").partition("\n\n")
    listed = " ".join(acetune("--help")[0].split())
    assert f" {name} {' '.join(first.split())} " in f"{listed} "


def test_a_misspelt_verb_is_suggested(acetune: Command) -> None:
    _, complaint = acetune("shwo", "study.db", ok=False)
    assert acetune.status == ExitCode.USAGE
    assert "No such command 'shwo'. Did you mean 'show'?" in complaint


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["resume", "x.db", "--add-trials", "1.5"], ["--add-trials", "'1.5'"]),
        (["resume", "x.db", "--add-trials", "-5"], ["--add-trials", "-5"]),
        (["resume", "x.db", "--add-trials", "0"], ["--add-trials", " 0 "]),
        (["resume", "x.db", "--add-time-s", "-1"], ["--add-time-s", "-1.0"]),
        (["plan", "a", "0.2"], ["'LIMIT'", "'a'"]),
        (["show", "x.db", "--require", "all"], ["--require", "'all'", "'certified-exact'"]),
        (["replay", "x.parquet", "--cost-ratio", "x"], ["--cost-ratio", "'x'"]),
    ],
    ids=lambda case: case[0] if isinstance(case, list) else None,
)
def test_wrong_usage_names_option_and_value(
    acetune: Command, arguments: list[str], named: list[str]
) -> None:
    printed, complaint = acetune(*arguments, ok=False)
    assert acetune.status == ExitCode.USAGE and not printed
    assert all(word in complaint for word in named)


def test_an_interrupted_verb_ends_with_the_status_for_it(
    acetune: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(study: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("acetune.cli.explain.viewing", interrupted)
    assert acetune("explain", "x.db", "1", ok=False) == ("", "")
    assert acetune.status == ExitCode.INTERRUPTED


@pytest.mark.parametrize("name", VERBS)
def test_what_an_option_is_read_as_is_what_its_verb_takes(name: str) -> None:
    verb = app.commands[name]
    takes = typing.get_type_hints(verb.callback)
    for param in verb.params:
        if param.name not in takes:  # left to the keywords of tune()
            assert "given" in takes
            continue
        kinds = {kind for kind in typing.get_args(takes[param.name]) if kind is not Ellipsis}
        optional = NoneType in kinds
        (kind,) = (kinds or {takes[param.name]}) - {NoneType}
        words = {"integer": int, "float": float, "path": Path, "boolean": bool}
        word = param.type.name.removesuffix(" range")
        assert kind is words.get(word, str), param.name
        assert param.multiple is (typing.get_origin(takes[param.name]) is tuple), param.name
        known = param.required or param.multiple or kind is bool
        has_default = param.to_info_dict()["default"] is not None
        assert optional is not (known or has_default), param.name
