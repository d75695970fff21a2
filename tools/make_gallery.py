"""Run the studies of the gallery: `python tools/make_gallery.py [credit|latency|two]`.

Each is an example. Its picture and its study file, packed, are written to docs/gallery; the site
makes a report page of the study file when it is built.
"""

from __future__ import annotations

import gzip
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from make_study_picture import picture, read

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "gallery"
#: the example, and what its trials are
STUDIES = {
    "credit": ("fairness", "configurations of LightGBM"),
    "latency": ("latency_xgboost", "configurations of XGBoost"),
    "two": ("two_constraints_pytorch", "networks in PyTorch"),
}


def main() -> None:
    """Make all, or those that are named."""
    names = sys.argv[1:] or list(STUDIES)
    if unknown := set(names) - set(STUDIES):
        sys.exit(f"no such study: {', '.join(sorted(unknown))}; there are {', '.join(STUDIES)}")
    OUT.mkdir(exist_ok=True)
    for name in names:
        make(name)


def make(name: str) -> None:
    """Run a study, draw it and keep its file."""
    example, what = STUDIES[name]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "examples" / f"{example}.py")]
        subprocess.run(command, cwd=folder, check=True)
        study = Path(folder) / f"{name}.db"
        (OUT / f"{name}.svg").write_text(picture(read(study), what), encoding="utf-8")
        packed = Path(folder) / "packed.db"
        with closing(sqlite3.connect(study)) as connection:
            connection.execute("VACUUM INTO ?", (str(packed),))
        (OUT / f"{name}.db.gz").write_bytes(gzip.compress(packed.read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
