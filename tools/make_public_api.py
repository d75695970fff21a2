"""Write the list of the public API: `python tools/make_public_api.py`.

It holds what users rely on: names and signatures, commands, keys of JSON, formats of files. Every
change of these shows as a difference of the page; a test says when it is out of date.

Names are read from the sources (`public_names.py`). Formats are read off files that are written
here, by the code that writes everybody's; this needs pyarrow (the extra `replay`).
"""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from pyarrow import parquet

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]  # the latter for a study made by code

from public_names import REFERENCE, Listing, code_block  # noqa: E402

import acetune  # noqa: E402
from acetune.cli import app  # noqa: E402
from acetune.cli.exits import ExitCode  # noqa: E402
from acetune.cli.replay import to_json as replay_json  # noqa: E402
from acetune.cli.show import to_json as show_json  # noqa: E402
from acetune.export import to_csv, to_optuna, to_parquet  # noqa: E402
from acetune.policies import POLICY_NAMES  # noqa: E402
from acetune.replay import CurveTable, simulate, synthetic_table, write_table  # noqa: E402
from acetune.searchers import SEARCHER_NAMES  # noqa: E402
from acetune.study.store import Store  # noqa: E402
from synthetic_study import make_study  # noqa: E402

OUT = REFERENCE / "public_api.md"
HEAD = """# The public API as a list

Names, signatures, commands, keys of JSON and formats of files: what users rely on. A change of it
has an entry in the [changelog](../../CHANGELOG.md). The other pages of the reference explain it.

This page is made from the code by `python tools/make_public_api.py`. What is not on it may change
at any time: modules that are not named here, where a class is defined, the data inside the pages of
report and dashboard, and what acetune keeps for itself in a storage of Optuna or in results of Ray.
"""
NAMES = """## Names

Stubs of what the public modules name. What several of them name is listed once.
"""
FILES = """## JSON and files

Words in capitals stand for names and text of the study's own; `[]` is each item of a list.
"""


def page() -> str:
    """The page as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        parts = [HEAD, NAMES, *Listing().sections(), *_commands(), FILES, *_files(Path(folder))]
    return "\n".join(parts)


# -- commands ------------------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    lines = (_verb(name, command) for name, command in [("", app), *app.commands.items()])
    text = "[The command line](command_line.md) tells what they mean, with defaults."
    yield code_block("## Commands", lines, text, "text")
    codes = [f"{code.value:>3}  {code.meaning}\n" for code in ExitCode]
    yield code_block("### Exit statuses", codes, language="text")
    for what, names in (("policies", POLICY_NAMES), ("searchers", SEARCHER_NAMES)):
        yield code_block(f"### Names of {what}", (f"{name}\n" for name in names), language="text")


def _verb(name: str, command: click.Command) -> str:
    words = ["acetune", name] if name else ["acetune"]
    for param in command.params:
        if param.param_type_name == "argument":
            words.append(param.human_readable_name)
        elif "--help" not in param.opts:
            words.append("|".join([*param.opts, *param.secondary_opts]))
    return " ".join(words) + "\n"


# -- JSON ----------------------------------------------------------------------------------------

_KEYED = {  # objects whose keys are no words of acetune's, and what their keys are
    "constraints": "CONSTRAINT",
    "confirmed": "METRIC",
    "by_constraint": "CONSTRAINT",
    "metrics": "METRIC",
    "params": "PARAMETER",
    "reasons": "REASON",
    "strata": "STRATUM",
    "trials": "STATE",
}
_OPEN = ("configs[]", "incomplete", "made", "policy", "settings", "space", "versions")


def _keys(*examples: Any) -> list[str]:
    """The keys of JSON, over all examples; what is in objects that are open is not listed."""
    leaves = dict.fromkeys(leaf for example in examples for leaf in _leaves("", example))
    # null in one example is an object in another
    inner = [p for p in leaves if any(q.startswith((f"{p}.", f"{p}[]")) for q in leaves)]
    return [f"{path}\n" for path in leaves if path not in inner]


def _leaves(path: str, value: Any) -> Iterator[str]:
    if path in _OPEN or not isinstance(value, (Mapping, list)):
        yield path
    elif isinstance(value, Mapping):
        keyed = _KEYED.get(path.rpartition(".")[2])
        for key, each in value.items():
            yield from _leaves(f"{path}.{keyed or key}".removeprefix("."), each)
    else:
        for each in value:
            yield from _leaves(f"{path}[]", each)


# -- files ---------------------------------------------------------------------------------------


def _files(folder: Path) -> Iterator[str]:
    study = make_study(folder / "study.db", trials=40, reports=800)
    none = make_study(folder / "none.db", trials=40, reports=800, feasible=False)
    with_hardware = Store.open(study)
    with with_hardware.transaction():
        with_hardware.set_hardware(1, 1, "a machine")
        with_hardware.add_earlier_study("earlier.db", "digest", [])
    with_hardware.close()
    results = [acetune.load(study), acetune.load(none)]
    run = simulate(synthetic_table(configs=20, seed=1).table, "ace", budget_s=20.0)
    show, replay = map(show_json, results), replay_json("table.parquet", [run])
    yield code_block("### `acetune show --json`", _keys(*show), language="text")
    yield code_block("### `acetune replay --json`", _keys(replay), language="text")
    columns = _columns(results[0].trials.reset_index().columns)
    text = "The index of the frame, and its columns."
    yield code_block("### `StudyResult.trials`", columns, text, "text")
    yield from _study_file(study)
    yield from _exports(study, folder)
    yield from _curve_table(folder / "table.parquet")


def _study_file(study: Path) -> Iterator[str]:
    db = sqlite3.connect(study)
    (number,) = db.execute("PRAGMA user_version").fetchone()
    tables = db.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL")
    stubs = [f"{sql};\n" for (sql,) in tables]
    paths = [path for (path,) in db.execute("SELECT path FROM checkpoints")]
    db.close()
    text = f"A SQLite file of format {number} (`user_version`); its older formats can be read too."
    yield code_block("### The study file", stubs, text, "sql")
    kept = sorted({re.sub(r"\d", "N", path) for path in paths})
    yield f"Kept models, below `STUDY.files/`: {', '.join(f'`{path}`' for path in kept)}.\n"


def _exports(study: Path, folder: Path) -> Iterator[str]:
    *tables, info = to_csv(study, folder / "csv")
    for table, typed in zip(tables, to_parquet(study, folder / "parquet"), strict=True):
        with table.open(encoding="utf-8", newline="") as file:
            names = next(csv.reader(file))
        schema = parquet.read_schema(typed)
        kinds = {name: str(schema.field(name).type) for name in names}
        text = "The columns of CSV and Parquet alike, with their types in Parquet."
        yield code_block(f"### `{table.name}`, `{typed.name}`", _columns(kinds), text, "text")
    about = json.loads(info.read_text(encoding="utf-8"))
    text = "Also in the metadata of each Parquet file, under the key `acetune`."
    yield code_block("### `study.json`", _keys(about), text, "text")
    made = to_optuna(study)
    attributes = dict.fromkeys(name for trial in made.trials for name in trial.user_attrs)
    lines = [*(f"study  {name}\n" for name in made.user_attrs)]
    lines += [f"trial  {line}" for line in _columns(attributes)]
    text = "User attributes of an exported study and of its trials."
    yield code_block("### A study of Optuna", lines, text, "text")


def _columns(names: Iterable[str]) -> list[str]:
    """Names of columns, with their types where they are known; those of a kind as one."""
    kinds = names if isinstance(names, Mapping) else dict.fromkeys(names)
    lines: dict[str, None] = {}
    for name, kind in kinds.items():
        prefix, dot, _ = name.partition(".")
        shown = f"{prefix}.NAME" if dot else name
        known = kind is not None and prefix != "param"  # a parameter has the type of its values
        lines[f"{shown:22}{kind}\n" if known else f"{shown}\n"] = None
    return list(lines)


def _curve_table(path: Path) -> Iterator[str]:
    headers = []
    for table in _tables():
        write_table(path, table)
        schema = parquet.read_schema(path)
        headers.append(json.loads(schema.metadata[b"acetune"]))
    own = ("config", "step", "cost_s")
    lines = [f"{field.name:22}{field.type}\n" for field in schema if field.name in own]
    lines += [f"{name:22}double or float\n" for name in ("METRIC", "METRIC@confirm")]
    yield code_block("### The curve table", lines, "A Parquet file with these columns.", "text")
    text = f"Metadata of the file under the key `acetune`, of format {headers[0]['format']}."
    yield code_block("### The header of a curve table", _keys(*headers), text, "text")


def _tables() -> Iterator[CurveTable]:
    """Tables whose headers have all keys between them."""
    table = synthetic_table(configs=3, confirmation=True).table
    (limit,) = table.constraints
    yield table
    yield replace(
        table,
        constraints=(replace(limit, upper=None, lower=0.0, sparse=True),),
        total_steps=table.total_steps + 1,  # cut off
        made={"command": "acetune record"},
        space={"x": {}},
    )


if __name__ == "__main__":
    OUT.write_text(page(), encoding="utf-8")
