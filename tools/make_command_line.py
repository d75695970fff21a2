"""Write the reference of the command line: `python tools/make_command_line.py`.

The page is made from the commands themselves and committed, so that it can be read on a code host;
a test says when it is out of date.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from acetune.cli import app
from acetune.cli.exits import ExitCode

OUT = Path(__file__).parent.parent / "docs" / "reference" / "command_line.md"
HEAD = """# The command line

    acetune VERB [OPTIONS]

`acetune --help` lists the verbs, `acetune VERB --help` tells what one takes.
An error that you can do something about is one line, and the exit status is then not 0.

| verb | what it does |
|---|---|
"""
EXITS = """
## Exit status

`demo`, `run`, `resume` and `show` tell by it whether there is a model to use. For `show` it counts
what is known by now, also while the study runs or after it was interrupted; with `--json` the JSON
is printed whatever the status. The other verbs end with 0, 1, 2 or 130.

| status | meaning |
|---|---|
"""


def page() -> str:
    """The page as it should be."""
    lines = [HEAD]
    for name, verb in app.commands.items():
        lines.append(f"| [`{name}`](#{name}) | {_cell(_first(verb.help))} |\n")
    lines += [EXITS, *(f"| {code.value} | {_cell(code.meaning)} |\n" for code in ExitCode)]
    for name, verb in app.commands.items():
        lines.append("\n" + _verb(name, verb))
    return "".join(lines)


def _verb(name: str, verb: click.Command) -> str:
    arguments = [p for p in verb.params if isinstance(p, click.Argument)]
    options = [p for p in verb.params if isinstance(p, click.Option)]
    usage = " ".join(["acetune", name, *(_usage(p) for p in arguments), "[OPTIONS]"])
    text = f"## {name}\n\n    {usage}\n\n{_prose(verb.help)}\n\n"
    text += "| argument or option | takes | default | meaning |\n|---|---|---|---|\n"
    for param in (*arguments, *options):
        names = ", ".join(f"`{option}`" for option in (*param.opts, *param.secondary_opts))
        if isinstance(param, click.Argument):
            names = f"`{param.human_readable_name}`"
        text += f"| {names} | {_kind(param)} | {_default(param)} | {_cell(param.help)} |\n"
    return text


def _usage(argument: click.Argument) -> str:
    name = argument.human_readable_name
    return name if argument.required else f"[{name}]"


def _kind(param: click.Parameter) -> str:
    kind = param.type.name.removesuffix(" range")
    if kind == "boolean":
        return ""
    word = {"integer": "number", "float": "number", "path": "path"}.get(kind, "text")
    return f"{word}, repeatable" if param.multiple else word


def _default(param: click.Parameter) -> str:
    if param.required:
        return "required"
    default = param.to_info_dict()["default"]  # None where the option has none
    return f"`{default}`" if default else ""


def _first(text: str | None) -> str:
    return (text or "").strip().split("\n\n")[0]


def _prose(text: str | None) -> str:
    """The paragraphs of a help text; one that begins with a backspace keeps its lines."""
    return "\n\n".join(map(_paragraph, inspect.cleandoc(text or "").split("\n\n")))


def _paragraph(text: str) -> str:
    if "\b" not in text:
        return " ".join(text.split())
    lines = text.replace("\b", "").strip("\n").splitlines()
    return "\n".join(f"    {line}" for line in lines)


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("<=", "≤")


if __name__ == "__main__":
    OUT.write_text(page(), encoding="utf-8")
