"""What was found, as JSON beside this file and as a table in docs/testing.md."""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tools.chaos.campaign import FAULTS, HERE, NAMES, part

RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "testing.md"
_BEGIN, _END = "<!-- chaos -->\n", "<!-- end of chaos -->\n"


def write(folder: Path) -> None:
    """Sum up what lies in a folder, and write both."""
    found = {"machine": _machine(), "parts": {}}
    for name in NAMES:
        path = folder / f"{name}.jsonl"
        if path.exists():
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            found["parts"][name] = summed(lines)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), found))


def summed(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """All rounds of a part in one."""
    counts, faults = Counter[str](), Counter[str]()
    for line in lines:
        counts.update(line["counts"])
        faults.update(kind for kind, _ in line["faults"])
    tried = [line for line in lines if not line["skipped"]]
    return {
        "rounds": len(tried),
        "minutes": round(sum(line["seconds"] for line in tried) / 60, 1),
        "counts": dict(sorted(counts.items())),
        "faults": dict(sorted(faults.items())),
        "commits": sorted({line["commit"] for line in lines}),
        "skipped": next((line["skipped"] for line in lines if line["skipped"]), ""),
    }


def with_table(text: str, found: dict[str, Any]) -> str:
    """The page with the figures of now."""
    pattern = re.escape(_BEGIN) + ".*" + re.escape(_END)
    return re.sub(pattern, lambda _: _BEGIN + _tables(found) + _END, text, flags=re.DOTALL)


def _tables(found: dict[str, Any]) -> str:
    parts = []
    for name in NAMES:
        one, known = part(name), found["parts"].get(name)
        parts += [
            f"\n### {name.replace('_', ' ').capitalize()}\n",
            f"**Promised**: {one.promise}\n",
            f"**Tried**: {one.how}\n",
            f"**Found**: {_found(known, one.rounds)}\n",
            f"    python -m tools.chaos {name}\n",
        ]
    kinds = "".join(f"- *{kind}*: {meaning}\n" for kind, meaning in FAULTS.items())
    return f"\nOn {found['machine']}. What counts as a fault:\n\n{kinds}" + "\n".join(parts) + "\n"


def _found(known: dict[str, Any] | None, whole: int) -> str:
    if known is None or not known["rounds"]:
        return "not run yet." if known is None else f"not run: {known['skipped']}."
    counts = ", ".join(f"{many:,} {what}" for what, many in known["counts"].items())
    faults = ", ".join(f"{many:,} {kind}" for kind, many in known["faults"].items())
    return (
        f"{known['rounds']} of {whole} rounds in {known['minutes']:g} minutes, at commit "
        f"{', '.join(known['commits'])}: {counts}. Faults: **{faults or 'none'}**."
    )


def _machine() -> str:
    return f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}"
