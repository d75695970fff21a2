"""Study files to spoil, and every verb of the command on what became of them."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import acetune
from acetune.cli import main
from acetune.core.errors import AcetuneError
from acetune.core.goals import Goals, Objective
from acetune.report.dashboard._study_follower import StudyFollower
from acetune.searchers.space import Space
from acetune.study.earlier_studies import EarlierStudies
from acetune.study.store import Store
from study.kept_study import DATA
from tools.chaos.campaign import Tally, in_child, told

logging.getLogger("acetune").setLevel(logging.CRITICAL)  # the dashboard says all it meets
_GOING_ON = ("--add-trials", 1, "--workers", 1)
_Look = Callable[[str, str, list[str], Tally], None]  # the verb, what it said, pages it wrote
VERB_S = 30.0  # a verb that takes longer hangs
_SOURCE = """
import math
import acetune

def train(trial):
    x = trial.params["x"]
    for step in trial.steps(5):
        if trial.number == 3 and step == 2:
            raise ValueError("too warm")
        value = math.nan if trial.number == 4 else x + 1 / step
        trial.report(value, model=(x, step), snapshot=tuple, checkpoint=save if step == 2 else None)

def save(folder):
    (folder / "state").write_text("2")

def size(model):
    if model[0] > 0.8:
        raise RuntimeError("no size")
    return model[0], 0.01

STUDY = dict(
    space={"x": acetune.uniform(0, 1), "kind": acetune.choice(["a", "b"])},
    objective="loss",
    mode="min",
    constraints=[
        acetune.Constraint("size", upper=0.6, check=size),
        acetune.Constraint("g", upper=2, check=lambda model: model[1] / 5),
    ],
    confirm=lambda model: {"size": acetune.Estimate(model[0], 0.01), "g": 1.0, "loss": model[0]},
    policy="ace",
    max_trials=12,
    workers=1,
    seed=0,
)
"""


@functools.cache
def _made() -> Path:
    """A study of all kinds of trials, and the same as a driver leaves it that is killed."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-studies-"))
    (folder / "source.py").write_text(_SOURCE)
    study = folder / "study.db"
    status, said = command("run", folder / "source.py", "--study", study)
    assert status == 0, said
    killed = folder / "killed" / "study.db"
    killed.parent.mkdir()
    with contextlib.closing(Store.open(study)) as store:
        with store.transaction():
            store.beat(1, 1000.0, 1000.0)
        for path in study.parent.glob("study.db*"):
            copy(path, killed.parent / path.name)
    for verb in READING.values():  # so that the copies of this process have it all imported
        with tempfile.TemporaryDirectory() as out:
            verb(study, Path(out))
    return folder


def study_in(folder: Path, chance: random.Random) -> Path:
    """A copy of one of several studies: of now, as a killed driver leaves it, of older formats."""
    kind = chance.random()
    if kind < 0.3:
        known = chance.choice(sorted(DATA.glob("format-*.db")))
    else:
        known = _made() / ("study.db" if kind < 0.75 else "killed/study.db")
    for path in known.parent.glob(f"{known.name}*"):
        copy(path, folder / path.name.replace(known.name, "study.db"))
    return folder / "study.db"


def copy(path: Path, to: Path) -> None:
    """A file or a folder."""
    shutil.copytree(path, to, symlinks=True) if path.is_dir() else shutil.copy(path, to)


def command(*arguments: object) -> tuple[int, str]:
    """``acetune`` in this process: its status and what it printed, complaints last."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["acetune", *map(str, arguments)]
    status: object = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        status = end.code or 0
    finally:
        sys.argv = before
    return int(str(status)), out.getvalue() + err.getvalue()


def _load(study: Path, _: Path) -> str:
    result = acetune.load(study)
    said = [str(result), repr(str(result.trials)), repr(result._repr_html_())]
    names = [limit.name for limit in result.goals.constraints]
    said += [str(result.what_if(**{name: 1.0})) for name in names]
    said += [str(found.model_fault()) for found in result.candidates if found.checkpoint]
    return "".join(said)


def _follow(study: Path, _: Path) -> str:
    """What the dashboard shows; it says what is wrong, and lives on."""
    follower = StudyFollower(study)
    try:
        edition = follower.update()
        problem = edition.problem
        # its own word for an error that is none of ours
        if problem is not None and "cannot be shown (" in problem:
            raise RuntimeError(problem)
        details = [follower.trial(number) for number in (1, 3, 99)]
        return repr((problem, edition.body, details))
    finally:
        follower.close()


def _learn(study: Path, folder: Path) -> str:
    goals = Goals(Objective("loss"), tuple(acetune.load(study).goals.constraints))
    space = Space({"x": acetune.uniform(0, 1), "kind": acetune.choice(["a", "b"])})
    EarlierStudies([study], goals, (), space).require_fitting(folder / "new.db")
    return ""


def _resume(study: Path, _: Path) -> str:
    return _verb("resume", "STUDY", *_GOING_ON, "--file", _made() / "source.py")(study, _)


def _said(done: tuple[int, str]) -> str:
    """What a command printed; one that refuses does so in a line of ours."""
    status, text = done
    if status == 1:
        assert text.splitlines(), "it ended with status 1 and no word"
        raise AcetuneError(text)
    return text


def _verb(*words: object) -> Callable[[Path, Path], str]:
    """A verb; STUDY and OUT in its words are filled in."""

    def verb(study: Path, folder: Path) -> str:
        places = {"STUDY": study, "OUT": folder / "out"}
        filled = []
        for word in words:
            name, dot, ending = str(word).partition(".")
            filled.append(f"{places.get(name, name)}{dot}{ending}")
        done = command(*filled)
        return _said(done)

    return verb


READING: dict[str, Callable[[Path, Path], str]] = {
    "show": _verb("show", "STUDY"),
    "show --json": _verb("show", "STUDY", "--json"),
    "explain 1": _verb("explain", "STUDY", 1, "--all"),
    "explain 3": _verb("explain", "STUDY", 3),
    "report": _verb("report", "STUDY", "-o", "OUT.html"),
    "export csv": _verb("export", "STUDY", "-o", "OUT.csv"),
    "export csv folder": _verb("export", "STUDY", "-o", "OUT", "--format", "csv"),
    "export parquet": _verb("export", "STUDY", "-o", "OUT.parquet"),
    "export optuna": _verb("export", "STUDY", "-o", "OUT.log"),
    "record --from": _verb("record", "--from", "STUDY", "-o", "OUT.curves"),
    "load": _load,
    "dashboard": _follow,
    "learn_from": _learn,
}
#: without --file it would run the file that the study names, and has to ask before
GOING_ON: dict[str, Callable[[Path, Path], str]] = {
    "resume": _verb("resume", "STUDY", *_GOING_ON),
    "resume --file": _resume,
}
_SHORT = ("show", "show --json", "explain 1", "explain 3", "export csv", "load")


def try_verbs(
    study: Path,
    chance: random.Random,
    tally: Tally,
    what: str,
    *,
    look: _Look = lambda name, said, pages, tally: None,
    each: bool = False,
) -> None:
    """Verbs on a study file that was spoiled in a way that ``what`` tells.

    Some of them, unless it is to be ``each``: many files with a few tell more than a few with all.
    """
    names = [*chance.sample(_SHORT, 3), *chance.sample(list(READING), 2)]
    if each or chance.random() < 0.05:
        names = [*(READING if each else names), *GOING_ON]
    before = _bytes(study)
    for name in dict.fromkeys(names):
        verb = (READING | GOING_ON)[name]
        tally.count("verbs tried")
        work = functools.partial(_try, name, verb, study, what, look)
        in_child(VERB_S, work, tally, f"{name}, {what}")
        if name in READING:
            same = _bytes(study) == before
            tally.require("wrong", same, f"{name} has changed what it reads: {what}")


def _try(
    name: str,
    verb: Callable[[Path, Path], str],
    study: Path,
    what: str,
    look: _Look,
    tally: Tally,
) -> None:
    with tempfile.TemporaryDirectory() as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            said = verb(study, Path(out))
            tally.count("answered")
            pages = [path.read_text("utf-8", "replace") for path in Path(out).glob("*.html")]
        except AcetuneError as error:
            said, pages = str(error), []
            tally.count("refused")
            tally.require("raw error", "Traceback (m" not in said, f"{name}, {what}: {said[:900]}")
        except Exception as error:
            tally.fault("raw error", f"{name}, {what}: {told(error)}")
            return
    look(name, said, pages, tally)


def _bytes(study: Path) -> bytes:
    return study.read_bytes() if study.is_file() else b""
