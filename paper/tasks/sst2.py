"""Sentences with their sentiment: GLUE's SST-2 from a folder or the hub, or made by code."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acetune.constraints.robustness.building import BAD, GOOD, NAMES, THINGS
from acetune.core.errors import AcetuneError

HUB = "hub"
_HUB_FILE = "hf://datasets/nyu-mll/glue/sst2/{part}-00000-of-00001.parquet"


@dataclass(frozen=True)
class Sentences:
    """Texts with their classes: 0 negative, 1 positive."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.texts)


def read_sst2(data: Path) -> tuple[Sentences, Sentences]:
    """Training and development sentences: of a folder, or of the hub for a path called ``hub``."""
    if str(data) == HUB:
        return _from_hub("train"), _from_hub("validation")
    return _read(data, "train.tsv"), _read(data, "dev.tsv")


def made_sentences(count: int, seed: int) -> Sentences:
    """Short reviews made by code; one word in ten is out of place.

    >>> made_sentences(2, seed=0).labels
    (1, 0)
    """
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        label = int(rng.integers(2))
        words = (BAD, GOOD)[label if rng.random() < 0.9 else 1 - label]
        word, thing, name = (
            str(rng.choice(options)) for options in (words, (*THINGS, "plot", "ending"), NAMES)
        )
        forms = (
            f"{name} finds the {thing} {word}.",
            f"This {thing} is {word}",
            f"A {word} {thing}!",
        )
        texts.append(forms[int(rng.integers(len(forms)))])
        labels.append(label)
    return Sentences(tuple(texts), tuple(labels))


def _read(folder: Path, name: str) -> Sentences:
    """A file of GLUE: a header, then sentence and label, tab separated; gzipped or not."""
    path = next((p for p in (folder / name, folder / f"{name}.gz") if p.exists()), None)
    if path is None:
        raise AcetuneError(
            f"{folder} has no {name} (or {name}.gz); the folder of GLUE's SST-2 is expected, or "
            f"{HUB!r} to download it"
        )
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except (OSError, EOFError, ValueError) as error:
        raise AcetuneError(f"cannot read {path}: {error}") from None
    rows = list(csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or rows[0] != ["sentence", "label"]:
        raise AcetuneError(f"{path}: the header 'sentence', 'label' is expected, got {rows[:1]}")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != 2 or row[1] not in ("0", "1"):
            raise AcetuneError(f"{path}, line {number}: a sentence and 0 or 1 expected, got {row}")
    if len(rows) == 1:
        raise AcetuneError(f"{path} has no sentences")
    return Sentences(tuple(row[0] for row in rows[1:]), tuple(int(row[1]) for row in rows[1:]))


def _from_hub(part: str) -> Sentences:
    import pandas

    try:
        table = pandas.read_parquet(_HUB_FILE.format(part=part))
    except (OSError, ValueError, ImportError) as error:
        raise AcetuneError(
            f"cannot get SST-2 from the hub ({error}); it takes the packages pyarrow and "
            "huggingface_hub; or give a folder with train.tsv and dev.tsv"
        ) from None
    return Sentences(tuple(table["sentence"]), tuple(int(label) for label in table["label"]))
