"""Which code decides numbers: to know results by that other code has measured."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMPORTS = (ast.Import, ast.ImportFrom)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def source_hash(
    patterns: Iterable[str], leave_out: Callable[[Path], bool] = lambda _: False, root: Path = ROOT
) -> str:
    """Of source files, given by patterns below the root without ``.py``.

    Comments, docstrings and imports do not count: code that moves to another file stays the same.
    """
    found = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(root.glob(f"{pattern}.py")):
            if leave_out(path):
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if (
                    isinstance(node, DOCUMENTED)
                    and ast.get_docstring(node, clean=False) is not None
                ):
                    del node.body[0]
            found.update(plain(tree).encode())
    return found.hexdigest()[:12]


def plain(node: object) -> str:
    """A syntax tree as text, the same in every version of Python: no imports, nothing empty."""
    if isinstance(node, ast.AST):
        fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
        inner = ", ".join(f"{name}={plain(value)}" for name, value in fields)
        return f"{type(node).__name__}({inner})"
    if isinstance(node, list):
        return f"[{', '.join(plain(part) for part in node if not isinstance(part, IMPORTS))}]"
    return repr(node)
