"""The documentation: the notebook runs, the site builds, and nothing in it is out of date.

The code of its pages is run by test_documentation_pages.py and test_documentation_frameworks.py.
"""

from __future__ import annotations

import dataclasses
import functools
import gzip
import importlib
import inspect
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import nbclient
import nbformat
import pytest

import acetune
from acetune.cli import app
from acetune.study.findings import FoundCheckpoint
from browser import browsing, opened
from documents import DOCS, PAGES, ROOT, WITH_CODE, blocks
from paper.__main__ import app as experiments
from paper.reproduce import PARTS
from paper.tasks import TASK_NAMES
from synthetic_study import make_study

# -- the notebook ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("default")  # those of Jupyter's own parts
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # no settings of the user's
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    path = DOCS / "notebooks" / "quickstart.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)  # as committed
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = {cell.source: cell.outputs for cell in code}
    text = "".join(str(output) for found in outputs.values() for output in found)
    assert "best feasible" in text and "none feasible" not in text
    assert len(re.findall(r"gap at 0\.\d+: 0\.\d+ \(trial \d+", text)) >= 3
    drawn = [source for source in outputs if source.startswith("acetune.plot.")]
    assert len(drawn) >= 4
    for source in drawn:
        kinds = {kind for output in outputs[source] for kind in output.get("data", {})}
        assert "application/vnd.plotly.v1+json" in kinds, source


# -- what is said about arguments and commands -----------------------------------------------------


def _rows(heading: str) -> dict[str, list[str]]:
    """The rows of the table under a heading of the page of arguments, by their first cell."""
    text = (DOCS / "reference" / "arguments.md").read_text(encoding="utf-8")
    part = re.split(rf"^#+ {re.escape(heading)}\n", text, flags=re.MULTILINE)[1]
    part = re.split(r"^#+ ", part, flags=re.MULTILINE)[0]
    rows: dict[str, list[str]] = {}
    for line in part.splitlines():
        if line.startswith("| `"):
            first, *others = (cell.strip() for cell in line.strip("|").split("|"))
            for name in re.findall(r"`(\w+)", first):
                rows[name] = others
    return rows


@pytest.mark.parametrize(
    ("heading", "function"),
    [
        ("tune", acetune.tune),
        ("Constraint", acetune.Constraint),
        ("Trial.report", acetune.Trial.report),
    ],
    ids=["tune", "Constraint", "report"],
)
def test_the_table_of_arguments_is_that_of_the_function(
    heading: str, function: Callable[..., object]
) -> None:
    rows = _rows(heading)
    parameters = inspect.signature(function).parameters
    refused = inspect.Parameter.VAR_POSITIONAL  # taken to say what is wrong with it
    shown = [name for name, one in parameters.items() if one.kind != refused and name != "self"]
    assert list(rows) == shown
    for name, (default, meaning) in rows.items():
        expected = parameters[name].default
        assert meaning
        if expected is inspect.Parameter.empty:
            assert default == "", name
        elif name == "model":  # nothing at all, which is another thing than None
            assert default == "none"
        else:
            assert default == f"`{expected!r}`", name


@pytest.mark.parametrize(
    ("heading", "kind"),
    [("The result", acetune.StudyResult), ("A checkpoint", FoundCheckpoint)],
    ids=["result", "checkpoint"],
)
def test_the_table_of_attributes_is_complete(heading: str, kind: type) -> None:
    known = {name for name in dir(kind) if not name.startswith("_")}
    known |= {field.name for field in dataclasses.fields(kind)}
    assert set(_rows(heading)) == known


def test_the_table_of_the_trial_has_what_it_has() -> None:
    documented = set(_rows("Trial"))
    made_in_init = {"params", "number", "attempt", "checkpoint", "folder", "device", "threads"}
    public = {name for name in vars(acetune.Trial) if not name.startswith("_")}
    for_engines = {"model", "close"}
    assert documented == (public - for_engines) | made_in_init


def test_the_reference_of_the_command_line_is_up_to_date() -> None:
    maker = _tool("make_command_line")
    assert maker.OUT.read_text(encoding="utf-8") == maker.page(), (
        "run: python tools/make_command_line.py"
    )


def test_the_pictures_are_what_their_script_draws(tmp_path: Path) -> None:
    maker = _tool("make_pictures")
    committed, maker.OUT = maker.OUT, tmp_path
    maker.main()
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    of_a_study = {"cast.svg"}  # by another script, from a study that it runs
    assert set(drawn) | of_a_study == {path.name for path in committed.glob("*.svg")}
    for name, text in drawn.items():
        assert text == (committed / name).read_text(encoding="utf-8"), (
            "run: python tools/make_pictures.py"
        )


def test_the_picture_of_a_study_has_all_that_happened(tmp_path: Path) -> None:
    maker = _tool("make_study_picture")
    study = maker.read(make_study(tmp_path / "study.db", trials=30, reports=600, constraints=1))
    drawn = ElementTree.fromstring(maker.picture(study))
    kinds = Counter(shape.get("class") for shape in drawn.iter())
    measured = study.checks["value"].notna()
    beyond = measured & (study.checks["value"] > study.about["constraints"][0]["upper"])
    assert kinds["p x"] == (study.trials["state"] == "stopped").sum() > 0
    assert kinds["p i"] == 2 * beyond.sum() > 0  # once in each panel
    assert kinds["p v"] == 2 * (measured & ~beyond).sum() > 0
    assert kinds["f last"] == 1
    assert f"{len(study.trials)} learning curves" in str(drawn.get("aria-label"))


def _gallery(folder: Path) -> dict[str, Path]:
    """The studies of the gallery, unpacked."""
    unpacked = {}
    for packed in sorted((DOCS / "gallery").glob("*.db.gz")):
        path = folder / packed.name.removesuffix(".gz")
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        unpacked[path.stem] = path
    return unpacked


def test_pictures_and_studies_of_the_gallery_are_those_of_the_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    gallery, painter = _tool("make_gallery"), _tool("make_study_picture")
    studies = _gallery(tmp_path)
    assert set(studies) == set(gallery.STUDIES)
    for name, (example, what) in gallery.STUDIES.items():
        study = painter.read(studies[name])
        committed = (DOCS / "gallery" / f"{name}.svg").read_text(encoding="utf-8")
        assert painter.picture(study, what) == committed, f"python tools/make_gallery.py {name}"
        source = (ROOT / "examples" / f"{example}.py").read_text(encoding="utf-8")
        for constraint in study.about["constraints"]:
            side = next(side for side in ("upper", "lower") if constraint.get(side) is not None)
            assert f"{side}={constraint[side]}" in source, f"{name}: {constraint['name']}"


def test_the_readme_shows_what_the_study_of_its_picture_printed(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(docs/gallery/credit.svg)" in readme
    shown = re.findall(r"^    (best feasible .*(?:\n    .*)*)", readme, re.MULTILINE)
    printed = str(acetune.load(_gallery(tmp_path)["credit"]))
    numbers = re.findall(r"\d[\d.,]*\d|\d", shown[0])
    assert len(numbers) > 12
    assert set(numbers) <= set(re.findall(r"\d[\d.,]*\d|\d", printed))
    assert re.search(r"^ *status +certified$", shown[0], re.MULTILINE)


def _tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _options(program: click.Group) -> dict[str, set[str]]:
    """The options of each verb."""
    return {
        name: {"--help", *(option for param in verb.params for option in param.opts)}
        for name, verb in program.commands.items()
    }


def _commands(page: Path, program: str, first: str = "[a-z]") -> list[str]:
    """What follows the program's name in the commands on a page."""
    text = page.read_text(encoding="utf-8")
    fenced = "".join(re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    found = re.findall(rf"^ {{4}}{program} ({first}.*?)(?: +#.*)?$", text, re.MULTILINE)
    found += re.findall(rf"^{program} ({first}.*?)(?: +#.*)?$", fenced, re.MULTILINE)
    return found + re.findall(rf"`{program} ({first}[^`]*)`", text)


def _require_options(program: click.Group, verb: str, words: list[str]) -> None:
    for word in words:
        if word.startswith("-"):
            assert word.partition("=")[0] in _options(program)[verb], (verb, word)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_the_commands_on_a_page_exist(page: Path) -> None:
    for command in _commands(page, "acetune"):
        verb, *words = shlex.split(command.replace("[", "").replace("]", ""))
        assert verb in _options(app), command
        _require_options(app, verb, words)


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "paper" / "README.md", ROOT / "tables" / "README.md", *PAGES],
    ids=lambda page: f"{page.parent.name}/{page.name}",
)
def test_the_commands_of_the_paper_on_a_page_exist(page: Path) -> None:
    for command in _commands(page, "python -m paper", "[a-z-]"):
        words = shlex.split(command)
        if words[0] in _options(experiments):
            verb, *words = words
            assert verb != "record" or {*words[:1]} <= {*TASK_NAMES, "TASK", "--help"}, command
        else:
            verb = "reproduce"
            parts = itertools.takewhile(lambda word: not word.startswith("-"), words)
            assert set(parts) <= set(PARTS), command
        _require_options(experiments, verb, words)


# -- extending -------------------------------------------------------------------------------------


def test_what_one_writes_to_extend_is_short() -> None:
    for page in sorted((DOCS / "extend").glob("*.md")):
        for block in blocks(page):
            code = [line for line in block.code.splitlines() if line.strip()]
            assert len(code) <= 42, f"{page.name}:{block.line}"  # with imports and the call


def test_a_policy_needs_no_more_than_25_lines() -> None:
    code = next(b.code for b in blocks(DOCS / "extend/policy.md") if "(Policy)" in b.code)
    policy = code.partition("\n\nresult = ")[0]
    assert len([line for line in policy.splitlines() if line.strip()]) < 25


@pytest.mark.parametrize("page", ["policy", "searcher", "constraint", "callback"])
def test_a_page_on_extending_ends_with_its_check(page: str) -> None:
    last = blocks(DOCS / "extend" / f"{page}.md")[-1].code
    assert f"from acetune.testing import check_{page}\n" in last


# -- the site --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a broken link, anchor or reference is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    return folder


class Loaded(HTMLParser):
    """What a browser fetches for a page, and what can be linked to on it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids.add(found.get("id", ""))
        if tag == "link" and found.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(found.get("href", ""))
        elif tag != "a":
            names = {"src", "srcset", "data", "poster"} & set(found)
            self.fetched += [found[name] for name in names]
        assert "mermaid" not in found.get("class", ""), "drawn by a script from the network"


@pytest.mark.timeout(240)
def test_nothing_on_the_site_comes_from_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        for address in Loaded(page).fetched:
            assert not re.match(r"(?:[a-z]+:)?//", address), f"{page.name}: {address}"
            if not address.startswith(("data:", "#")) and page.name != "404.html":
                assert (page.parent / address.partition("?")[0]).exists(), address
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8"))


def test_colours_have_contrast_on_pages_of_each_kind(site: Path) -> None:
    """They have what is on any: cards, code, marked lines, tables, pictures, signatures."""
    kinds = ["index", "start", "howto/lightgbm", "gallery", "certificates", "reference/ray"]
    with browsing() as browser, opened(browser, site / "index.html", width=390) as watched:
        for page, colours in zip(kinds, itertools.cycle(["light", "dark"]), strict=False):
            watched.page.emulate_media(color_scheme=colours)
            watched.page.goto((site / f"{page}.html").as_uri())
            assert watched.serious_findings() == [], page


@pytest.mark.timeout(400)
def test_every_page_is_for_everyone_and_fits_a_phone(site: Path) -> None:
    elsewhere = {site / "404.html", *(site / "gallery").glob("*.html")}  # those in tests/report
    pages = sorted({*site.rglob("*.html")} - elsewhere)
    with browsing() as browser, opened(browser, site / "index.html", width=390) as watched:
        for page in pages:
            watched.page.goto(page.as_uri())
            assert watched.serious_findings(contrast=False) == [], page
            wide = "document.documentElement.scrollWidth > innerWidth"
            assert not watched.page.evaluate(wide), page


def test_every_study_of_the_gallery_has_its_report_page(site: Path) -> None:
    studies = sorted((DOCS / "gallery").glob("*.db.gz"))
    assert [study.name for study in studies] == ["credit.db.gz", "latency.db.gz", "two.db.gz"]
    gallery = (site / "gallery.html").read_text(encoding="utf-8")
    for study in studies:
        name = study.name.removesuffix(".db.gz")
        assert f'href="gallery/{name}.html"' in gallery
        report = (site / "gallery" / f"{name}.html").read_text(encoding="utf-8")
        assert "<title>" in report and "certified" in report


def test_hidden_code_is_not_on_the_site(site: Path) -> None:
    for page in WITH_CODE:
        if any(block.hidden for block in blocks(page)):
            made = (site / page.relative_to(DOCS)).with_suffix(".html")
            assert "setup" not in re.sub(r"\bsetup(?:\.py)?</code>", "", made.read_text())


@pytest.mark.parametrize(
    ("room", "page"),
    [
        ("acetune", "acetune"),
        ("acetune.constraints", "constraints"),
        ("acetune.ray", "ray"),
        ("acetune.optuna", "optuna"),
        ("acetune.plot", "plot_export"),
        ("acetune.export", "plot_export"),
        ("acetune.replay", "replay"),
        ("acetune.testing", "testing"),
    ],
)
def test_every_public_name_is_in_the_reference(room: str, page: str, site: Path) -> None:
    ids = Loaded(site / "reference" / f"{page}.html").ids
    shown = {name.rpartition(".")[2] for name in ids if name.startswith("acetune.")}
    module = importlib.import_module(room)
    for name in module.__all__:
        found = getattr(module, name)
        if inspect.isfunction(found) or inspect.isclass(found):
            assert name in shown


@pytest.mark.parametrize("framework", ["keras", "lightgbm", "lightning", "transformers", "xgboost"])
def test_every_callback_is_in_the_reference(framework: str, site: Path) -> None:
    ids = Loaded(site / "reference" / "callbacks.html").ids
    assert f"acetune.callbacks.{framework}.ReportCallback" in ids
    assert "acetune.callbacks.catboost.fit" in ids
