"""Which code decides the numbers of a policy: to know results by that other code has measured."""

from __future__ import annotations

import ast
import hashlib

from benchmarks import grid_plan as plan

CODE = (  # what decides the numbers
    *(
        f"src/acetune/{name}"
        for name in ("core/*", "policies/*", "searchers/*", "study/coordinator*")
    ),
    *(
        f"src/acetune/replay/{name}"
        for name in ("simulator", "judged_table", "table_searcher", "synthetic")
    ),
    *(f"benchmarks/{name}" for name in ("budgets", "regret", "grid_cells")),
)
IMPORTS = (ast.Import, ast.ImportFrom)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def code_hash(policy: str) -> str:
    """Of the source files that decide a policy's numbers.

    Comments, docstrings and imports do not count: code that moves to another file stays the same.
    """
    found = hashlib.sha256()
    for pattern in CODE:
        for path in sorted(plan.ROOT.glob(f"{pattern}.py")):
            if path.stem.lstrip("_") == plan.OURS and not plan.named(policy, [plan.OURS]):
                continue  # the one file there that serves one policy alone
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
