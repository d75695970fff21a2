"""A study goes on with a changed check: refused, accepted, or measured again."""

from __future__ import annotations

import functools
import importlib
import json
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acetune
from acetune import ACE, Constraint, Trial
from acetune.constraints import FairnessCheck
from acetune.core.errors import GoalError, StudyChangedError
from acetune.study._code_identity import Changes, changes, identity_of
from acetune.study.opening import CodeChangedWarning
from run.helpers import Events, rows, tune

EVERY_STEP = ACE(truncation=0, interval=1, gate=False)


def train(trial: Trial) -> None:
    for step in trial.steps(2):
        trial.report(trial.params["x"] + 1 / step, model={"x": trial.params["x"], "step": step})


def run(study: Path, check: Any, trials: int = 3, **options: Any) -> acetune.StudyResult:
    defaults: dict[str, Any] = {
        "xs": [1.0, 2.0, 3.0, 4.0, 5.0],
        "constraints": [Constraint("g", upper=2, check=check)],
        "policy": EVERY_STEP,
        "keep_models": 5,
        "max_trials": trials,
    }
    return tune(train, study, **(defaults | options))


# -- what counts as the same ---------------------------------------------------------------------

HELPERS = """
LIMIT = {limit}
LABELS = {labels}
calls = 0

def rate(model):
    {comment}
    return model["x"] {operator} LIMIT

class Gap:
    def __init__(self, weight, labels):
        self.weight, self.labels, self.calls = weight, labels, 0

    def __call__(self, model):
        self.calls += 1
        return rate(model) * self.weight

    def measure(self, model):
        return self(model)
"""
CHECKS = """
import functools
import helpers
from helpers import Gap, rate

def by_function(model):
    return rate(model)

def by_module(model):
    global calls
    calls = 1
    return helpers.rate(model)

def by_import(model):
    from helpers import rate as other
    return other(model)

by_lambda = [lambda model: 0, lambda model: rate(model)][1]
by_partial = functools.partial(lambda model, scale: rate(model) * scale, scale=1.5)
by_cache = functools.cache(by_function)
by_object = Gap(0.5, [0, 1])
by_method = Gap(0.5, [0, 1]).measure

def made(inner):
    return lambda model: inner(model)

by_closure = made(rate)

def decorated(function):
    @functools.wraps(function)
    def wrapper(model):
        return function(model)
    return wrapper

by_decorator = decorated(by_function)
"""
KINDS = ["by_function", "by_module", "by_import", "by_lambda", "by_partial", "by_cache"]
KINDS += ["by_object", "by_method", "by_closure", "by_decorator"]
AS_IT_IS = {"limit": 0.25, "labels": [0, 1], "comment": "", "operator": "+"}


def in_files(folder: Path, kind: str, **changed: Any) -> dict[str, Any]:
    """The identity of a check whose files are these, as another process sees it."""
    (folder / "helpers.py").write_text(HELPERS.format(**(AS_IT_IS | changed)))
    (folder / "checks.py").write_text(changed.get("before", "") + CHECKS)
    program = (
        "import json, checks\n"
        "from acetune.study._code_identity import identity_of\n"
        f"print(json.dumps(identity_of(checks.{kind})._asdict()))"
    )
    words = [sys.executable, "-c", program]
    found = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    plain: dict[str, Any] = json.loads(found.stdout)
    return plain


def compared(old: dict[str, Any], new: dict[str, Any]) -> Changes:
    from acetune.study._code_identity import Identity

    return changes(old, Identity(**new))


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_in_a_helper_is_found_through_every_kind_of_check(
    tmp_path: Path, kind: str
) -> None:
    begun = in_files(tmp_path, kind)
    assert begun["not_followed"] == []
    same = Changes([], [], [])
    assert compared(begun, in_files(tmp_path, kind)) == same  # another process, other hashes
    moved = in_files(tmp_path, kind, comment="# says why", before="# moved\n\n\n")
    assert compared(begun, moved) == same
    documented = in_files(tmp_path, kind, comment='"""Says what."""')
    assert compared(begun, documented) == same

    changed = compared(begun, in_files(tmp_path, kind, operator="-"))
    assert changed.code == ["rate in helpers.py has changed"]
    limit = compared(begun, in_files(tmp_path, kind, limit=0.5))
    assert [line.rpartition("LIMIT")[2] for line in limit.code] == [" was 0.25, now 0.5"]


LAZY = {
    "lazy.py": """
import numpy as np
from inner import deep
from inner.deep import weigh
SCALE = 2.0
OPTIONS = {"shift": 0}
OPTIONS["turn"] = 1
def rate(model):
    return weigh(model) * SCALE + deep.SHIFT + OPTIONS["turn"]
class Gap:
    def of(self, model):
        return rate(model)
def unrelated():
    return 1
if __name__ == "__main__":
    print(rate(3))
""",
    "inner/__init__.py": "",
    "inner/deep.py": "SHIFT = 1\ndef weigh(model):\n    return model\n",
    "inner/checks.py": """
def relative(model):
    from . import deep
    return deep.weigh(model) + deep.SHIFT
""",
    "checks.py": """
from inner.checks import relative
def named(model):
    from lazy import rate
    return rate(model)
def whole(model):
    import lazy
    return lazy.Gap().of(model)
def dotted(model):
    import inner.deep
    return inner.deep.weigh(model) + inner.deep.SHIFT
""",
}
WAYS = ["named", "whole", "dotted", "relative"]


def imported_in_its_body(
    folder: Path, kind: str, file: str = "lazy.py", old: str = "", new: str = "", before: str = ""
) -> dict[str, Any]:
    """The identity of a check whose modules nobody has loaded, with a line of one changed."""
    for name, text in LAZY.items():
        (folder / name).parent.mkdir(exist_ok=True)
        assert name != file or old in text
        (folder / name).write_text(text.replace(old, new) if name == file else text)
    program = (
        f"import json, sys, checks\n{before}\n"
        "from acetune.study._code_identity import identity_of\n"
        f"found = identity_of(checks.{kind})._asdict()\n"
        f"assert {bool(before)} or not {{'lazy', 'inner.deep'}} & set(sys.modules)\n"
        "print(json.dumps(found))"
    )
    words = [sys.executable, "-B", "-c", program]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["not_followed"] == []
    return found


@pytest.mark.parametrize("kind", WAYS)
def test_a_module_that_is_imported_in_a_body_counts_without_being_loaded(
    tmp_path: Path, kind: str
) -> None:
    begun = imported_in_its_body(tmp_path, kind)

    def now(*changed: str) -> Changes:
        return compared(begun, imported_in_its_body(tmp_path, kind, *changed))

    assert now() == ([], [], [])
    assert now("lazy.py", "return 1", "return 2") == ([], [], [])  # nothing asks for it
    assert now("lazy.py", "print(rate(3))", "print(rate(4))") == ([], [], [])
    assert now("inner/deep.py", "\n    return", "\n    # as it is\n    return") == ([], [], [])
    weigh = now("inner/deep.py", "return model", "return -model")
    assert weigh.code == ["weigh in deep.py has changed"]
    assert now("inner/deep.py", "= 1", "= 3").code == ["inner.deep.SHIFT was 1, now 3"]
    if kind not in ("named", "whole"):
        return
    assert now("lazy.py", "* SCALE", "/ SCALE").code == ["rate in lazy.py has changed"]
    assert now("lazy.py", "= 2.0", "= 3.0").code == ["lazy.SCALE was 2.0, now 3.0"]
    assert now("lazy.py", '["turn"] = 1', '["turn"] = 2').code == ["OPTIONS in lazy.py has changed"]


@pytest.mark.parametrize("kind", WAYS)
def test_whether_such_a_module_was_loaded_before_makes_no_difference(
    tmp_path: Path, kind: str
) -> None:
    """As in a notebook, where the check was tried by hand."""
    begun = imported_in_its_body(tmp_path, kind)
    used = imported_in_its_body(tmp_path, kind, before=f"checks.{kind}(3)")
    assert begun == used


def test_an_import_that_cannot_be_read_is_listed() -> None:
    def check(model: Any) -> Any:
        import no_such_module_anywhere  # type: ignore[import-not-found]

        return no_such_module_anywhere.f(model)

    assert identity_of(check).not_followed == [
        "import no_such_module_anywhere, which has no source that can be found"
    ]


def test_a_relative_import_outside_a_package_ends_nothing(tmp_path: Path) -> None:
    """With the other way in ``except``, in a body and in what it imports."""
    either = "try:\n    from .{0} import {1}\nexcept ImportError:\n    from {0} import {1}\n"
    (tmp_path / "outer.py").write_text(
        either.format("deeper", "scale") + "def rate(x): return scale(x)\n"
    )
    body = either.format("outer", "rate").replace("\n", "\n    ")
    (tmp_path / "checks.py").write_text(
        f"FACTOR = 3\ndef later(x): return FACTOR * x\ndef check(x):\n    {body}"
        "return later(rate(x))\n"
    )

    def now(factor: int) -> dict[str, Any]:
        (tmp_path / "deeper.py").write_text(f"def scale(x): return {factor} * x\n")
        program = (
            "import json, checks\nfrom acetune.study._code_identity import identity_of\n"
            "print(json.dumps(identity_of(checks.check)._asdict()))"
        )
        words = [sys.executable, "-B", "-c", program]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    begun, changed = now(1), now(2)
    assert begun["settings"] == {"FACTOR": "3"} and "later in checks.py" in begun["code"]
    assert compared(begun, changed).code == ["scale in deeper.py has changed"]
    assert begun["not_followed"] == ["import .outer, which has no source that can be found"]


def digest_in_a_process(expression: str) -> str:
    program = f"""
import numpy as np, collections, dataclasses, enum, pathlib
from acetune.study._data_digests import digest_of_data
@dataclasses.dataclass
class Point:
    x: float
    tags: set
print(digest_of_data({expression}))
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return found.stdout


DATA = [
    "np.arange(12).reshape(3, 4)[:, ::2]",
    "{'b': {'x', 'y', 'z'}, 'a': [1, 2.5, None, True]}",
    "Point(0.5, {'one', 'two', 'three'})",
    "collections.Counter('abracadabra')",
    "np.array(['a', None, 3], dtype=object)",
    "[pathlib.Path('a'), b'x', frozenset({('a', 'b')})]",
    "__import__('pandas').DataFrame({'a': [1, 2], 'b': ['x', None]})",
]


@pytest.mark.parametrize("expression", DATA)
def test_a_digest_of_data_is_the_same_in_every_process(expression: str) -> None:
    assert len({digest_in_a_process(expression) for _ in range(3)}) == 1


def test_digests_tell_contents_apart() -> None:
    from acetune.study._data_digests import digest_of_data

    same = np.arange(4.0), np.arange(8.0)[:4], np.array([0.0, 1.0, 2.0, 3.0])
    assert len(set(map(digest_of_data, same))) == 1
    holds_itself: list[Any] = [1]
    holds_itself.append(holds_itself)
    different = [
        np.arange(4.0),
        np.arange(4),
        np.arange(4.0)[::-1],
        np.arange(4.0).reshape(2, 2),
        np.ma.masked_equal(np.arange(4.0), 0),
        [0.0, 1.0],
        [0, 1],
        ["0", "1"],
        ["01"],
        {"a": 1},
        {"a": 2},
        {1, 2},
        holds_itself,
        int,
        float,
    ]
    assert len(set(map(digest_of_data, different))) == len(different)


def test_what_cannot_be_read_is_listed_and_raises_nothing(study: Path) -> None:
    class Odd:
        def __reduce_ex__(self, protocol: Any) -> Any:
            raise RuntimeError("I am not to be copied")

        def __getstate__(self) -> Any:
            raise RuntimeError("I am not to be copied")

    odd, stream = Odd(), threading.Lock()
    found = identity_of(lambda model: (stream, odd))
    assert len(found.not_followed) >= 2 and "I am not to be copied" in str(found.not_followed)
    code = compile("lambda model: undefined_name + 1", "<nowhere>", "eval")
    assert identity_of(eval(code)).not_followed == []


def test_code_without_a_source_is_told_by_its_byte_code() -> None:
    def made(text: str) -> Any:
        spaces: dict[str, Any] = {}
        exec(text, spaces)
        return spaces["check"]

    old = identity_of(made("def check(m):\n    return m + 1"))
    assert "source" not in old.code["check"]
    plain = old._asdict()
    again = identity_of(made("def check(m):\n    # the same\n\n    return m + 1"))
    assert changes(plain, again) == ([], [], [])
    other = identity_of(made("def check(m):\n    return m - 1"))
    assert changes(plain, other).code == ["check has changed"]
    # written by another Python
    plain["code"] = {"check": {"3.99": "0123"}}
    assert changes(plain, again).unknown and not changes(plain, again).code


def test_a_cell_of_a_notebook_is_known_by_its_source() -> None:
    """As IPython puts it into linecache, under another name at each run."""
    import linecache

    def cell(name: str, text: str) -> Any:
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        spaces: dict[str, Any] = {}
        exec(compile(text, name, "exec"), spaces)
        return spaces["check"]

    text = "LIMIT = 3\ndef check(model):\n    return model - LIMIT\n"
    old = identity_of(cell("/tmp/ipykernel_1/111.py", text))
    assert "source" in old.code["check"]
    again = identity_of(cell("/tmp/ipykernel_2/222.py", "\n\n" + text))
    assert changes(old._asdict(), again) == ([], [], [])
    other = identity_of(cell("/tmp/ipykernel_2/333.py", text.replace("model -", "model +")))
    assert changes(old._asdict(), other).code == ["check has changed"]


def test_a_file_that_was_edited_after_it_was_imported_does_not_count(tmp_path: Path) -> None:
    """What runs is what was imported."""
    (tmp_path / "edited_later.py").write_text("def check(m):\n    return m + 1\n")
    sys.path.insert(0, str(tmp_path))
    try:
        module = importlib.import_module("edited_later")
        begun = identity_of(module.check)
        (tmp_path / "edited_later.py").write_text("def check(m):\n    return m - 1\n")
        still = identity_of(module.check)
        assert changes(begun._asdict(), still) == ([], [], [])
        del sys.modules["edited_later"]
        importlib.invalidate_caches()
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        now = identity_of(importlib.import_module("edited_later").check)
        assert changes(begun._asdict(), now).code == ["check in edited_later.py has changed"]
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("edited_later", None)


def fairness(**options: Any) -> FairnessCheck:
    y, sex = [0, 1, 0, 1, 1, 0, 1, 0], ["f", "m"] * 4
    given = {"threshold": 0.5, "y_true": y, "sensitive_features": sex} | options
    return FairnessCheck("demographic_parity_difference", **given)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"threshold": 0.3}, "threshold was 0.5, now 0.3"),
        ({"method": "to_overall"}, "method was 'between_groups', now 'to_overall'"),
        ({"stderr": False}, "stderr was True, now False"),
        ({"scores": len}, "builtins.len is new"),
    ],
)
def test_options_of_a_ready_made_check_count(changed: dict[str, Any], words: str) -> None:
    begun = identity_of(fairness())
    used = fairness()
    used(np.arange(8) / 8)  # that it was used is no change
    assert changes(begun._asdict(), identity_of(used)) == ([], [], [])
    assert words in changes(begun._asdict(), identity_of(fairness(**changed))).code


def test_rows_of_a_ready_made_check_are_data() -> None:
    begun = identity_of(fairness())._asdict()
    other = identity_of(
        fairness(y_true=[1, 1, 0, 1, 1, 0, 1, 0], sensitive_features=["f"] * 3 + ["m"] * 5)
    )
    found = changes(begun, other)
    assert found.data == ["rows"] and not found.code


# -- what a study does ---------------------------------------------------------------------------


def low(model: dict[str, float]) -> float:
    return model["x"] / 4


def high(model: dict[str, float]) -> float:
    return model["x"] + 0.5


def test_a_changed_check_is_refused_with_the_ways_out(study: Path) -> None:
    run(study, low)
    with pytest.raises(StudyChangedError) as caught:
        run(study, high, trials=4)
    text = str(caught.value)
    for words in ("'g'", "low", "high", "study=...", '"measure_again"', '"accept"'):
        assert words in text
    assert acetune.load(study).counts == {"finished": 3}  # nothing has happened
    assert len(run(study, low, trials=4).trials) == 4


def test_the_threshold_of_a_fairness_check(study: Path) -> None:
    def limit(threshold: float) -> list[Constraint]:
        check = fairness(threshold=threshold, scores=lambda model: np.arange(8) / model["x"])
        return [Constraint("gap", upper=0.9, check=check)]

    run(study, None, constraints=limit(0.5))
    with pytest.raises(StudyChangedError, match=r"gap: threshold was 0.5, now 0.3"):
        run(study, None, trials=4, constraints=limit(0.3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(study, None, trials=4, constraints=limit(0.5))


def test_accepting_is_remembered_and_said(study: Path) -> None:
    run(study, low)
    result = run(study, high, trials=4, on_changed_check="accept")
    (change,) = rows(study, "SELECT * FROM check_changes")
    assert change["how"] == "accept" and change["done"] is not None and change["seq"] == 6
    assert "accepted" in str(result) and "g: high" in str(result)
    assert "accepted" in str(acetune.load(study))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(study, high, trials=5)  # no more questions
    with pytest.raises(StudyChangedError):
        run(study, low, trials=5)


def test_measuring_again_sets_the_values_of_the_earlier_check_aside(study: Path) -> None:
    first = run(study, low)
    assert first.best is not None and first.best.params == {"x": 1.0}
    before = rows(study, "SELECT * FROM checks")
    events = Events()
    result = run(study, high, trials=3, on_changed_check="measure_again", callbacks=[events])
    assert [text for text in events.notices if "3 kept models measured again" in text]
    assert result.best is not None and result.best.params == {"x": 1.0}
    assert result.best.constraints["g"].value == 1.5
    # 2 + 0.5 and 3 + 0.5 break the limit, which both kept by the earlier check
    assert {found.trial for found in result.candidates} == {result.best.trial}
    assert result.best.load() == {"x": 1.0, "step": result.best.step}
    assert result.strata == {"unchecked": 6}
    aside = rows(study, "SELECT * FROM earlier_checks")
    assert [row["value"] for row in aside] == [row["value"] for row in before]
    now = rows(study, "SELECT kind, value FROM checks JOIN reports USING (seq) ORDER BY value")
    assert [(row["kind"], row["value"]) for row in now] == [
        ("after", 1.5),
        ("after", 2.5),
        ("after", 3.5),
    ]
    assert "6 unchecked; kept models were measured again by the changed check" in str(result)
    # a further session counts on it
    assert run(study, high, trials=4).best == acetune.load(study).best


def test_nothing_that_the_earlier_check_let_pass_stays_an_answer(study: Path) -> None:
    run(study, low)
    result = run(study, lambda model: 9.0, on_changed_check="measure_again")
    assert result.best is None and not result.candidates


def test_measuring_again_that_was_cut_off_goes_on(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acetune.run import tuning

    run(study, low)

    def killed(*_: object) -> None:
        raise RuntimeError("a power cut, say")

    with monkeypatch.context() as patched:
        patched.setattr(tuning, "measure_again", killed)
        with pytest.raises(RuntimeError):
            run(study, high, on_changed_check="measure_again")
    assert acetune.load(study).best is None  # nothing counts in between
    result = run(study, high)  # without being told again
    assert result.best is not None and result.best.constraints["g"].value == 1.5


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (lambda c: [Constraint("g", upper=2, check=lambda: c * 0.0)], "takes no model"),
        (
            lambda c: [
                Constraint("g", upper=2, check=low),
                Constraint("h", upper=9, check=lambda params: c, on="config"),
            ],
            "a check of the configuration",
        ),
    ],
)
def test_what_cannot_be_measured_again_is_refused(
    study: Path, limits: Callable[[float], Any], words: str
) -> None:
    run(study, None, constraints=limits(1.0))
    with pytest.raises(StudyChangedError, match=words):
        run(study, None, constraints=limits(2.0), on_changed_check="measure_again")
    with pytest.raises(StudyChangedError, match="accept"):
        run(study, None, constraints=limits(2.0))
    run(study, None, constraints=limits(2.0), trials=4, on_changed_check="accept")


OPTIONS: dict[str, Any] = {"scale": 1.0, "clip": {"low": 0}}
WEIGHTS = [0.25]
SEEN: dict[float, float] = {1.0: 0.0}


def by_options(model: dict[str, float]) -> float:
    SEEN[model["x"]] = model["x"]
    out = [0.0]
    out[0] = model["x"] * OPTIONS["scale"] * WEIGHTS[0]
    return max(OPTIONS["clip"]["low"], out[0])


def test_options_in_a_small_container_count_as_settings(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(study, by_options)
    for name, value, words in (
        ("OPTIONS", {**OPTIONS, "scale": 2.0}, r"g: OPTIONS\.scale was 1\.0, now 2\.0"),
        ("OPTIONS", {**OPTIONS, "clip": {"low": 1}}, r"OPTIONS\.clip\.low was 0, now 1"),
        ("OPTIONS", {**OPTIONS, "high": 1}, r"OPTIONS\.high was not there, now 1"),
        ("WEIGHTS", [0.5], r"WEIGHTS was \[0\.25\], now \[0\.5\]"),
    ):
        with monkeypatch.context() as patched:
            patched.setitem(globals(), name, value)
            with pytest.raises(StudyChangedError, match=words):
                run(study, by_options, trials=4)
    with monkeypatch.context() as patched:  # what it fills itself is data, as before
        patched.setitem(globals(), "SEEN", {1.0: 0.0, 2.0: 2.0})
        with pytest.warns(CodeChangedWarning, match="SEEN"):
            run(study, by_options, trials=4)


def test_what_is_long_or_empty_or_filled_by_a_method_is_data() -> None:
    class Remembers:
        def __init__(self) -> None:
            self.seen = {"a": 1}
            self.options = {"a": 1}

        def __call__(self, model: Any) -> float:
            self.seen.update(b=2)
            return self.options["a"]

    long, empty, check = list(range(17)), dict[str, int](), Remembers()
    found = identity_of(lambda model: (long, empty, check(model)))
    assert set(found.data) == {"long", "empty", "check.seen"}
    assert found.settings == {"check.options.a": "1"}
    holds_itself: list[Any] = [1]
    holds_itself.append(holds_itself)
    assert set(identity_of(lambda model: holds_itself).data) == {"holds_itself"}


def test_another_installed_function_is_a_change() -> None:
    def made(function: Any) -> Any:
        return lambda model: function(model)

    found = changes(identity_of(made(len))._asdict(), identity_of(made(sum))).code
    assert found == ["builtins.len is no longer part of it", "builtins.sum is new"]


def test_functions_that_go_by_the_kind_of_their_argument_are_followed() -> None:
    def made(sign: int, kind: type) -> Any:
        @functools.singledispatch
        def of(value: Any) -> int:
            return 0

        of.register(kind, lambda value: sign)

        class Sign:
            @functools.singledispatchmethod
            def of(self, value: Any) -> int:
                return sign

        return lambda model: of(model) + Sign().of(model)

    check = made(1, int)
    begun = identity_of(check)._asdict()
    assert check(3) == 2  # which fills a cache
    assert changes(begun, identity_of(check)) == ([], [], [])
    assert "sign was 1, now -1" in changes(begun, identity_of(made(-1, int))).code
    other = changes(begun, identity_of(made(1, str))).code
    assert other == ["builtins.int is no longer part of it", "builtins.str is new"]


def test_short_lists_that_an_earlier_version_noted_as_data_are_a_warning_only() -> None:
    now = identity_of(by_options)
    earlier = now._replace(settings={}, data={"OPTIONS": "0123", "WEIGHTS": "4567", **now.data})
    assert changes(earlier._asdict(), now) == ([], ["OPTIONS", "WEIGHTS"], [])


def test_other_data_is_a_warning_once(study: Path) -> None:
    def check(labels: Any) -> Any:
        return lambda model: model["x"] / 4 + 0 * labels.sum()

    run(study, check(np.arange(5)))
    with pytest.warns(CodeChangedWarning, match=r"data that a check uses.*g: labels") as caught:
        run(study, check(np.arange(6)), trials=4)
    (warned,) = caught
    assert warned.filename == tune.__code__.co_filename  # who called acetune.tune
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = run(study, check(np.arange(6)), trials=5)
    assert "data" in str(result)


def test_a_check_that_never_gave_a_value_may_be_mended(study: Path) -> None:
    run(study, lambda model: float("nan"))
    assert run(study, low, trials=4).best is not None


def test_a_changed_confirm_is_said_and_noted(study: Path) -> None:
    run(study, low, confirm=lambda model: {"g": 1.0})
    events = Events()
    result = run(study, low, trials=4, confirm=lambda model: {"g": 1.5}, callbacks=[events])
    assert [text for text in events.notices if "confirm has changed" in text]
    assert [row["how"] for row in rows(study, "SELECT how FROM check_changes")] == ["confirm"]
    assert "confirm" in str(result)


def test_confirm_may_be_mended_before_it_was_ever_used(study: Path) -> None:
    run(study, low)
    events = Events()
    run(study, low, confirm=lambda model: {"g": 1.0}, callbacks=[events])
    assert not [text for text in events.notices if "confirm has changed" in text]


def test_a_file_of_a_version_that_noted_nothing(study: Path) -> None:
    import sqlite3
    from contextlib import closing

    run(study, low)
    with closing(sqlite3.connect(study)) as db, db:
        db.execute("UPDATE study SET code = '{}'")
    with pytest.warns(CodeChangedWarning, match="the training function or a check has changed"):
        run(study, high, trials=4)
    with pytest.raises(StudyChangedError):  # from now on it is known
        run(study, low, trials=5)


def test_a_wrong_option_is_refused(study: Path) -> None:
    with pytest.raises(GoalError, match="on_changed_check must be 'refuse', 'accept' or"):
        run(study, low, on_changed_check="yes")  # type: ignore[arg-type]


# -- fresh data ----------------------------------------------------------------------------------


def certifying(study: Path, check: Any, value: float, **options: Any) -> acetune.StudyResult:
    """A study whose fresh rows give this value, with counts."""

    def confirm(model: object) -> dict[str, object]:
        return {"g": acetune.Share(round(1000 * value), 1000)}

    its = [Constraint("g", upper=0.9, check=check, margin_se=0)]
    defaults = {"constraints": its, "confirm": confirm, "confirm_top": 2, "max_trials": 3}
    return run(study, None, **(defaults | options))


def tenth(model: dict[str, float]) -> float:
    return model["x"] / 10


def ninth(model: dict[str, float]) -> float:
    return model["x"] / 9


def required(study: Path) -> int:
    from click.testing import CliRunner

    from acetune.cli import app

    return CliRunner().invoke(app, ["show", str(study), "--require", "certified"]).exit_code


def test_a_certificate_does_not_outlive_the_check_that_it_is_about(study: Path) -> None:
    first = certifying(study, tenth, 0.5)
    assert first.status == "certified" and required(study) == 0
    listed = [place for look in first.looks for place in look["candidates"]]
    again: dict[str, Any] = {"on_changed_check": "measure_again"}
    result = certifying(study, ninth, 0.95, confirm=None, **again)
    assert result.status == acetune.load(study).status == "unconfirmed"
    assert required(study) != 0
    assert "was about a check that was changed" in str(result)
    assert "confirm went wrong" not in str(result) and result.confirm_error is None
    best = result.best
    assert best is not None and best.confirmation is not None
    assert not best.confirmation.values and not best.confirmation.bounds
    uses = rows(study, "SELECT status FROM confirmations")
    assert "certified" in [use["status"] for use in uses]  # as it was written
    # the looks still count, and rows that were used are used up
    events = Events()
    result = certifying(study, ninth, 0.5, max_trials=5, confirm_top=5, callbacks=[events])
    assert result.account.looks == 2
    assert not set(result.looks[1]["candidates"]) & set(listed)
    assert [note for note in events.notices if "looked at under other checks before" in note]
    # other rows certify by the check of now
    result = certifying(study, ninth, 0.5, max_trials=5, confirm_data="other rows")
    assert result.account.looks == 3 and result.status == "certified" and required(study) == 0


def test_a_verdict_against_a_model_does_not_outlive_its_check_either(study: Path) -> None:
    assert certifying(study, tenth, 0.95).status == "broken"
    result = certifying(study, ninth, 0.5, confirm=None, on_changed_check="measure_again")
    assert result.best is not None and result.status == "unconfirmed"
    assert result.what_if(g=0.9).best == replace(result.best, violation=0.0)


STANDS, SOME = "what it said before stands", "what it said of an earlier one does not"


def test_what_a_changed_confirm_said_stands_only_of_the_current_check(study: Path) -> None:
    def other(model: object) -> dict[str, object]:
        return {"g": acetune.Share(400, 1000)}

    def another(model: object) -> dict[str, object]:
        return {"g": acetune.Share(300, 1000)}

    certifying(study, tenth, 0.5)
    again: dict[str, Any] = {"on_changed_check": "measure_again"}
    events = Events()
    both = certifying(study, ninth, 0.5, confirm=other, callbacks=[events], **again)
    assert SOME in str(both) and STANDS not in str(both)
    (notice,) = [note for note in events.notices if "confirm has changed" in note]
    assert SOME in notice and STANDS not in notice
    later = certifying(study, ninth, 0.5, confirm=another, confirm_data="other rows")
    assert str(later).count(SOME) == 2 and STANDS not in str(later)


def test_what_a_changed_confirm_said_stands_until_the_check_is_changed(study: Path) -> None:
    certifying(study, tenth, 0.5)
    result = certifying(study, tenth, 0.5, confirm=lambda model: {"g": acetune.Share(4, 10)})
    assert STANDS in str(result) and SOME not in str(result)
    result = certifying(study, ninth, 0.5, confirm=None, on_changed_check="measure_again")
    assert SOME in str(result) and STANDS not in str(result)


def test_a_certificate_stands_where_the_changed_check_is_said_to_measure_the_same(
    study: Path,
) -> None:
    assert certifying(study, tenth, 0.5).status == "certified"
    assert certifying(study, ninth, 0.5, on_changed_check="accept").status == "certified"


def test_a_look_that_was_under_way_ends_with_the_check_it_was_for(study: Path) -> None:
    def breaks_off(model: dict[str, float]) -> dict[str, object]:
        if model["x"] < 3:
            raise RuntimeError("the fresh rows are gone")
        return {"g": acetune.Share(100, 1000)}

    def begun(model: dict[str, float]) -> float:  # what is better is less safe
        return (6 - model["x"]) / 10

    def changed(model: dict[str, float]) -> float:
        return (6 - model["x"]) / 9

    options: dict[str, Any] = {"max_trials": 4, "keep_models": 4, "confirm_top": 4}
    first = certifying(study, begun, 0.5, confirm=breaks_off, **options)
    assert first.status == "certified" and [look["ended"] for look in first.looks] == [None]
    before = rows(study, "SELECT * FROM confirmations")
    result = certifying(study, changed, 0.5, on_changed_check="measure_again", **options)
    (look,) = result.looks
    assert look["ended"] is not None and result.status == "unconfirmed"
    assert rows(study, "SELECT * FROM confirmations") == before  # its candidates stay spent
    result = certifying(study, changed, 0.5, confirm_data="other rows", **options)
    assert result.status == "certified"
    assert result.best is not None and result.best.confirmation is not None
    assert result.best.confirmation.look == 2
    assert result.looks[1]["level"] < result.looks[0]["level"]


@pytest.mark.parametrize("back", [False, True])
def test_looks_and_changes_stay_in_order_if_the_clock_is_set_back(
    study: Path, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    import time

    now = time.time

    def by(hours: float) -> Callable[[], float]:
        return lambda: now() + 3600 * hours

    certifying(study, tenth, 0.5)
    if back:
        monkeypatch.setattr(time, "time", by(-5))
    result = certifying(study, ninth, 0.5, confirm=None, on_changed_check="measure_again")
    assert result.status == "unconfirmed"
    monkeypatch.setattr(time, "time", by(-9))
    result = certifying(study, ninth, 0.5, confirm_data="other rows")
    assert result.status == "certified"


FILE = """
import acetune
def check(model):
    return model["x"] * {factor}
def train(trial):
    for step in trial.steps(2):
        trial.report(trial.params["x"], model=dict(trial.params))
STUDY = dict(space={{"x": acetune.uniform(0, 1)}}, objective="loss", mode="min", max_trials=2,
             constraints=[acetune.Constraint("g", upper=2, check=check)], workers=1, progress=False)
"""


@pytest.mark.parametrize("verb", ["run", "resume"])
def test_from_the_command_line(tmp_path: Path, verb: str) -> None:
    file = tmp_path / "search.py"

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "acetune", *words], cwd=tmp_path, capture_output=True, text=True
        )

    file.write_text(FILE.format(factor=1.0))
    assert call("run", "search.py").returncode == 0
    file.write_text(FILE.format(factor=1.5))
    on = ("run", "search.py") if verb == "run" else ("resume", "search.db")
    refused = call(*on)
    assert refused.returncode != 0 and "--on-changed-check" in refused.stderr
    for how in ("measure-again", "accept"):
        done = call(*on, "--on-changed-check", how)
        assert done.returncode == 0, done.stderr
