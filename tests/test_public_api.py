"""The list of the public API is that of the code, and what it says of signatures is true."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import functools
import importlib
import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "make_public_api.py"
# those that load no framework
MODULES = [
    "acetune",
    "acetune.constraints",
    "acetune.constraints.fairness",
    "acetune.constraints.latency",
    "acetune.constraints.robustness",
    "acetune.constraints.size",
    "acetune.core.cost",
    "acetune.distributed",
    "acetune.export",
    "acetune.optuna",
    "acetune.plot",
    "acetune.policies",
    "acetune.replay",
    "acetune.searchers",
    "acetune.testing",
]


@functools.cache
def _tool() -> dict[str, Any]:
    return runpy.run_path(str(TOOL))


def test_the_list_of_the_public_api_is_up_to_date() -> None:
    listed, found = _tool()["OUT"].read_text(encoding="utf-8"), _tool()["page"]()
    difference = "\n".join(
        difflib.unified_diff(
            listed.splitlines(), found.splitlines(), "the list", "the code", n=2, lineterm=""
        )
    )
    if difference:
        pytest.fail(
            "the public API has changed; if that is meant, say so in CHANGELOG.md and run: "
            f"python tools/make_public_api.py\n\n{difference}",
            pytrace=False,
        )


def _stubs(module: str) -> ast.Module:
    page = _tool()["OUT"].read_text(encoding="utf-8")
    found = re.search(rf"^### {re.escape(module)}\n\n```pyi\n(.*?)^```", page, re.M | re.S)
    assert found is not None
    return ast.parse(found[1])


def _parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    named = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [each.arg for each in named if each is not None and each.arg != "self"]


@pytest.mark.parametrize("name", MODULES)
def test_signatures_are_those_at_run_time(name: str) -> None:
    module = importlib.import_module(name)
    listed: set[str] = set()
    body = _stubs(name).body
    last = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            if node is not last[node.name]:
                continue  # of several overloads the last one has all parameters
            listed.add(node.name)
            expected = list(inspect.signature(getattr(module, node.name)).parameters)
            assert _parameters(node) == expected, node.name
        elif isinstance(node, ast.ClassDef):
            listed.add(node.name)
            kind = getattr(module, node.name)
            made = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
            if made:
                assert _parameters(made[0]) == list(inspect.signature(kind).parameters), node.name
            elif dataclasses.is_dataclass(kind):
                fields = [ast.unparse(f.target) for f in node.body if isinstance(f, ast.AnnAssign)]
                assert fields == list(inspect.signature(kind).parameters), node.name
        elif isinstance(node, ast.ImportFrom):
            listed |= {alias.name for alias in node.names}
            home = importlib.import_module(node.module or "")
            assert all(getattr(home, a.name) is getattr(module, a.name) for a in node.names)
        elif isinstance(node, ast.Assign):
            listed |= {each.id for each in node.targets if isinstance(each, ast.Name)}
        elif isinstance(node, ast.AnnAssign | ast.Expr):
            target = node.target if isinstance(node, ast.AnnAssign) else node.value
            assert isinstance(target, ast.Name)
            listed.add(target.id)
    if hasattr(module, "__all__"):
        assert listed == set(module.__all__)


def test_every_stub_can_be_parsed() -> None:
    page = _tool()["OUT"].read_text(encoding="utf-8")
    stubs = re.findall(r"^```pyi\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(stubs) > 20
    for stub in stubs:
        ast.parse(stub)
