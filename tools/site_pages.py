# pyright: basic, reportMissingImports=false
"""What the site has beside docs/: the README and its like, files that pages name, the API.

A hook of MkDocs (mkdocs.yml). Links that lead out of docs/ lead to these instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "start.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the root -> what the site calls them."""
API = {
    "Compile": "rnncc.compile rnncc.build rnncc.plan rnncc.elementwise rnncc.options.Options",
    "Layers": "rnncc.cells",
    "PyTorch": "rnncc.torch.scan rnncc.torch.compile rnncc.torch.build rnncc.torch.export",
    "Run": "rnncc_runtime.load rnncc_runtime.describe rnncc_runtime.Model rnncc_runtime.Stream"
    " rnncc_runtime.TrainableModel rnncc_runtime.Tape rnncc_runtime.Pool rnncc_runtime.TensorSpec",
    "Errors": "rnncc.errors.CompileError rnncc_runtime.errors",
}
"""Headings -> objects, whose docstrings are the reference."""
_ITEM = re.compile(r"(- |\d+\. )")
_LINK = re.compile(r"\]\(([^)#\s]*)((?:#[^)\s]*)?)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and the files of examples/ that pages lead to."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=from_root((ROOT / source).read_text())))
    files.append(File.generated(config, "api.md", content=reference()))
    for name in sorted(_named() - PAGES.keys()):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def _named() -> set[str]:
    """The files of the root, but those of docs/, that pages lead to."""
    inside = [link[1] for page in (ROOT / "docs").glob("*.md") for link in _links(page)]
    outside = [link[1] for page in PAGES for link in _links(ROOT / page)]
    found = {target[3:] for target in inside if target.startswith("../")}
    found |= {target for target in outside if not target.startswith("docs/")}
    return {target for target in found if (ROOT / target).is_file()}


def _links(page: Path) -> Iterator[re.Match[str]]:
    return _LINK.finditer(page.read_text())


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links out of docs/ to what the site has instead."""
    return spaced(_LINK.sub(lambda link: f"]({_inside(link[1])}{link[2]})", markdown))


def spaced(markdown: str) -> str:
    """With an empty line before each list, which Python's Markdown needs and GitHub's does not."""
    lines, before, is_code = list[str](), "", False
    for line in markdown.splitlines():
        is_code ^= line.lstrip().startswith("```")
        begins = _ITEM.match(line) and not _ITEM.match(before) and not before.startswith(" ")
        if begins and before.strip() and not is_code:
            lines.append("")
        lines.append(line)
        before = line
    return "\n".join(lines) + "\n"


def from_root(text: str) -> str:
    """A page of the root as if it were in docs/."""
    return _LINK.sub(lambda link: f"]({_moved(link[1])}{link[2]})", text)


def reference() -> str:
    """The page of the API, for mkdocstrings to fill."""
    parts = ["# Python\n"]
    for title, names in API.items():
        parts.append(f"## {title}\n")
        parts += [f"::: {name}\n" for name in names.split()]
    return "\n".join(parts)


def _inside(target: str) -> str:
    return _moved(target[3:]) if target.startswith("../") else target


def _moved(target: str) -> str:
    """A path from the root as one from docs/."""
    return PAGES.get(target, target.removeprefix("docs/"))
