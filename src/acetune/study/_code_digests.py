"""Digests of what a function does: of its byte code, and of its syntax tree where there is one."""

from __future__ import annotations

import ast
import hashlib
import linecache
import sys
import types
from typing import Any

_FLAGS = 0x3FF  # of what a function is; others tell of __future__ imports
_HAS_DOCSTRING = 0x4000000  # a flag of code from Python 3.13 on


def short_hash(data: bytes) -> str:
    """Eight bytes are enough: nobody makes two checks alike on purpose."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def digest_of_code(code: types.CodeType) -> str:
    """Of byte code, constants and names; comparable within one minor version of Python."""
    return short_hash(repr(_plain_code(code)).encode("utf-8", "surrogatepass"))


def _plain_code(code: types.CodeType) -> tuple[object, ...]:
    """What byte code does, without where it stands."""
    constants = list(code.co_consts)
    documented = bool(code.co_flags & _HAS_DOCSTRING)
    if sys.version_info < (3, 13):
        documented = not code.co_name.startswith("<") and isinstance(
            constants[0] if constants else None, str
        )
    if documented and constants:
        constants[0] = None
    return (
        code.co_name if code.co_name.startswith("<") else "",
        code.co_code,
        tuple(map(_plain_constant, constants)),
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        code.co_flags & _FLAGS,
        code.co_exceptiontable,
    )


def _plain_constant(value: object) -> object:
    if isinstance(value, types.CodeType):
        return _plain_code(value)
    if isinstance(value, frozenset):
        return "frozenset", *sorted(map(repr, value))
    if isinstance(value, tuple):
        return "tuple", *map(_plain_constant, value)
    return type(value).__name__, repr(value)


_parsed: dict[str, tuple[str, ast.Module | None, dict[tuple[str, int], list[types.CodeType]]]] = {}


def digest_of_source(code: types.CodeType, spaces: dict[str, Any]) -> str | None:
    """A digest of the syntax tree of what runs; None where its source cannot be had."""
    node = tree_of(code, spaces)
    return None if node is None else digest_of_tree(node)


def digest_of_tree(node: ast.AST) -> str:
    """Of what it says, without layout, comments, docstrings and annotations."""
    return short_hash(_plain_tree(node).encode("utf-8", "surrogatepass"))


def tree_of(code: types.CodeType, spaces: dict[str, Any]) -> ast.AST | None:
    """The syntax tree of what runs; None where its source cannot be had."""
    file = code.co_filename
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file, spaces))
    if not text:
        return None
    known = _parsed.get(file)
    if known is None or known[0] != text:
        known = _parsed[file] = (text, *_parse(text, file))
    _, tree, compiled = known
    if tree is None:
        return None
    digest = digest_of_code(code)
    same = [
        one
        for one in compiled.get((code.co_name, code.co_firstlineno), [])
        if digest_of_code(one) == digest
    ]
    if not same:
        return None  # the file was edited since, or its code was changed on the way
    nodes = [node for node in ast.walk(tree) if _is_node_of(node, code)]
    found = {digest_of_tree(node): node for node in nodes}
    if len(found) > 1:
        found = {digest_of_tree(node): node for node in nodes if _encloses(node, code)}
    return next(iter(found.values())) if len(found) == 1 else None


def _parse(
    text: str, file: str
) -> tuple[ast.Module | None, dict[tuple[str, int], list[types.CodeType]]]:
    compiled: dict[tuple[str, int], list[types.CodeType]] = {}
    try:
        tree = ast.parse(text)
        waiting = [compile(tree, file, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError):
        return None, compiled
    while waiting:
        one = waiting.pop()
        compiled.setdefault((one.co_name, one.co_firstlineno), []).append(one)
        waiting += [constant for constant in one.co_consts if isinstance(constant, types.CodeType)]
    return tree, compiled


def _is_node_of(node: ast.AST, code: types.CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        return node.name == code.co_name and first == code.co_firstlineno
    return False


def _encloses(node: ast.AST, code: types.CodeType) -> bool:
    """Whether the code is that of a lambda, of several that begin on one line."""
    if not isinstance(node, ast.Lambda):
        return True
    body = node.body
    first = body.lineno, body.col_offset
    last = body.end_lineno or body.lineno, body.end_col_offset or 0
    places = [
        (line, column)
        for line, _, column, end in code.co_positions()
        if line is not None and column is not None and end != 0
    ]
    return bool(places) and min(places) == first and max(places) <= last


_CHANGING = ("append", "add", "update", "setdefault", "extend", "insert", "pop", "popitem")
_REMOVING = ("remove", "discard", "clear", "sort", "reverse")


def changed_in_place(tree: ast.AST) -> set[str]:
    """Names and attributes whose items are set, added or taken away."""
    found: set[str] = set()
    for node in ast.walk(tree):
        held: ast.expr | None = None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            held = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            held = node.func.value if node.func.attr in (*_CHANGING, *_REMOVING) else None
        while isinstance(held, ast.Subscript):  # SEEN["a"]["b"] = 1
            held = held.value
        if isinstance(held, ast.Name):
            found.add(held.id)
        elif isinstance(held, ast.Attribute):
            found.add(held.attr)
    return found


_NO_MATTER = ("ctx", "type_comment", "type_params", "returns", "annotation", "kind")


def _plain_tree(node: ast.AST) -> str:
    """A syntax tree as text: without places, docstrings, annotations and what is empty.

    Written by hand, since what ``ast.dump`` gives differs between versions of Python.
    """
    if isinstance(node, ast.Constant):
        return f"{type(node.value).__name__}:{_plain_constant(node.value)!r}"
    if isinstance(node, ast.JoinedStr):  # versions differ in where they cut its plain text
        pieces: list[str] = []
        for piece in node.values:
            if not isinstance(piece, ast.Constant):
                pieces.append(_plain_tree(piece))
            elif pieces and pieces[-1].startswith("text:"):
                pieces[-1] += str(piece.value)
            elif piece.value:
                pieces.append("text:" + str(piece.value))
        return f"JoinedStr({pieces!r})"
    parts = []
    value: Any
    for name, value in ast.iter_fields(node):
        if value is None or value == [] or name in _NO_MATTER:
            continue
        if name == "body" and isinstance(value, list):
            value = _without_docstring(node, value)
        if isinstance(value, ast.AST):
            text = _plain_tree(value)
        elif isinstance(value, list):
            text = ",".join(_plain_tree(v) if isinstance(v, ast.AST) else repr(v) for v in value)
        else:
            text = repr(value)
        parts.append(f"{name}={text}")
    return f"{type(node).__name__}({';'.join(parts)})"


def _without_docstring(node: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return body
    first = body[0]
    said = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if said and isinstance(first.value.value, str) else body  # type: ignore
