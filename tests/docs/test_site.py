"""The site: every page is in its navigation, its links hold, and it builds without warnings."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.site_pages import API, PAGES, from_root, on_page_markdown, spaced
from tools.wrapping import long_lines, wrap

ROOT = Path(__file__).parents[2]


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    named = re.findall(r": ([\w-]+\.md)$", text, re.MULTILINE)
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert sorted(named) == sorted({*pages, *PAGES.values(), "api.md"})


def test_links_lead_to_what_the_site_has() -> None:
    assert from_root("[a](docs/abi.md#sizes), [b](CONTRIBUTING.md)") == (
        "[a](abi.md#sizes), [b](contributing.md)"
    )
    told = on_page_markdown("[a](../README.md), [b](../examples/dtln.py), [c](ir.md)", None, {}, [])
    assert told == "[a](start.md), [b](examples/dtln.py), [c](ir.md)\n"


def test_lists_begin_after_an_empty_line() -> None:
    text = "Words:\n- one\n  more\n- two\n```\nx\n- y\n```\n"
    assert spaced(text) == text.replace(":\n", ":\n\n")


def test_what_the_reference_names_is_there() -> None:
    for name in " ".join(API.values()).split():
        if not name.startswith("rnncc.torch"):
            code = f"import importlib, pydoc; assert pydoc.locate({name!r}) is not None"
            exec(code)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="no MkDocs")
def test_it_builds_without_warnings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/api.html").is_file()


def test_lines_fit_a_diff() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    lines_by_page = {path.name: long_lines(path.read_text()) for path in pages}
    assert {name: lines for name, lines in lines_by_page.items() if lines} == {}


def test_wrapping_keeps_what_markdown_reads() -> None:
    words = "word " * 19
    kept = f"| {words * 2}|\n```\n{words * 2}\n```\n"
    told = wrap(f"- {words}`a b c` {words}> 1. end\n{kept}")
    assert told == f"- {words.strip()}\n  `a b c` {words[:-6]}\n  word > 1. end\n{kept}"
