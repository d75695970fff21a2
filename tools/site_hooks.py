"""What MkDocs needs to make a site of documents that are written for a code host too.

Pages link to files beside `docs/`: examples, measurements, the changelog. On a code host such a
link opens the file. For the site the file is made a page under `from/`, and the link is bent to it,
so that the same text is right in both places. A link to a packed study opens its report page, which
is made here. Hidden set-up code of the tests is taken out, and figures of speed that are older than
the code they measured get a mark.
"""

from __future__ import annotations

import functools
import gzip
import json
import posixpath
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

import acetune
from acetune.report.html import write_report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools import make_speed_page

ROOT = Path(__file__).parent.parent
FOLDER = "from"
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
HIDDEN = re.compile(r"^<!-- setup\b.*?-->\n*", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^(?P<fence>`{3,}).*?^(?P=fence)", re.MULTILINE | re.DOTALL)


def on_pre_build(config: MkDocsConfig) -> None:
    """Refuse figures of speed that have no source, or that say something else."""
    try:
        make_speed_page.require_agreement()
    except make_speed_page.ProblemError as problem:
        raise PluginError(str(problem)) from None


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Say in the footer which version the pages are about."""
    config.copyright = f"The documentation of acetune {acetune.__version__}. Apache-2.0."
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the pages link to outside `docs/`, and the notebook as a page."""
    docs = Path(config.docs_dir)
    in_nav = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    in_nav += [ROOT / folder / "README.md" for folder in ("benchmarks", "paper", "tables")]
    seen: set[Path] = set()
    waiting = in_nav + [path for page in docs.rglob("*.md") for path in _outside(page, docs)]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if path.suffix == ".md":
            waiting += _outside(path, docs)
        content = path.read_bytes()
        if path.suffix == ".py":
            content = _example(path).encode()
        if path.suffix in (".md", ".py"):  # found after the pages that are about the matter
            content = b"---\nsearch:\n  boost: 0.5\n---\n" + content
        made = File.generated(config, _place(path), content=content)
        if path not in in_nav:
            made.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(made)
    for notebook in docs.rglob("*.ipynb"):
        place = notebook.relative_to(docs).with_suffix(".md").as_posix()
        files.append(File.generated(config, place, content=_notebook(notebook)))
    for study in docs.rglob("*.db.gz"):
        place = study.relative_to(docs).as_posix().replace(".db.gz", ".html")
        files.append(File.generated(config, place, content=_report(study)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Bend links that leave `docs/`, and leave out what only the tests need."""
    docs = Path(config.docs_dir)
    uri = page.file.src_uri
    inside = f"{FOLDER}/"
    source = (ROOT / uri.removeprefix(inside)) if uri.startswith(inside) else docs / uri

    def bend(found: re.Match[str]) -> str:
        target = _resolve(source, found[2])
        if target is None:
            return found[0]
        if docs in target.parents:
            place = target.relative_to(docs).as_posix()
        elif target.is_dir():
            place = _place(target / "README.md")
        else:
            place = _place(target)
        if target.name.endswith(".db.gz"):
            place = place.replace(".db.gz", ".html")
        elif docs in source.parents and docs in target.parents:
            return found[0]
        relative = posixpath.relpath(place, posixpath.dirname(uri) or ".")
        return f"{found[1]}{relative}{found[3] or ''}{found[4]}"

    parts, at = [], 0
    for fence in FENCE.finditer(markdown):  # code is left as it is
        parts += [LINK.sub(bend, markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    text = HIDDEN.sub("", "".join([*parts, LINK.sub(bend, markdown[at:])]))
    is_speed = source == ROOT / make_speed_page.PAGE
    if is_speed:
        return make_speed_page.marked_page(text)
    return make_speed_page.marked(text, old=_older())


@functools.cache
def _older() -> list[str]:
    """The benchmarks whose figures get a mark, found once for all pages."""
    return make_speed_page.older(make_speed_page.results())


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let a keyboard reach the pictures and tables, which scroll on a phone."""
    html = html.replace("<p><img ", '<p tabindex="0"><img ')
    return html.replace("<table>", '<table tabindex="0">')


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Give the theme's search a name for screen readers."""
    search = 'class="md-search" data-md-component="search" role="dialog"'
    return output.replace(search, f'{search} aria-label="Search"')


def _resolve(source: Path, target: str) -> Path | None:
    """The file that a relative link leads to; None for an address, or for nothing."""
    if "://" in target or target.startswith(("/", "mailto:")):
        return None
    path = Path(posixpath.normpath((source.parent / target).as_posix()))
    return path if path.exists() else None


def _outside(page: Path, docs: Path) -> list[Path]:
    """The files outside `docs/` that a page links to."""
    found = []
    for link in LINK.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
        path = _resolve(page, link[2])
        if path is not None and docs not in path.parents and path != docs:
            found.append(path / "README.md" if path.is_dir() else path)
    return found


def _place(path: Path) -> str:
    """Where a file from outside `docs/` is on the site."""
    place = f"{FOLDER}/{path.relative_to(ROOT).as_posix()}"
    return place.removesuffix(".py") + ".md" if place.endswith(".py") else place


def _example(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    return f"# {path.name}\n\n`{name}`\n\n```python\n{path.read_text(encoding='utf-8')}```\n"


def _report(path: Path) -> bytes:
    """The report page of a packed study."""
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / path.stem
        study.write_bytes(gzip.decompress(path.read_bytes()))
        return write_report(study, study.with_suffix(".html")).read_bytes()


def _notebook(path: Path) -> str:
    """The cells of a notebook as Markdown, without outputs."""
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join(parts) + f"\n\n[The notebook itself]({path.name})\n"
