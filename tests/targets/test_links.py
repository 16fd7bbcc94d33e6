"""Libraries of systems that are not run here: they link, export what they should, and no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rnncc
from rnncc.errors import CompileError
from rnncc.packaging.linkers import find_linker
from rnncc.platforms import PLATFORMS

EXPORTED = {"run", "metadata", "supported", "missing_feature", "workspace_bytes"}
EXPORTED |= {"step", "state_init", "state_bytes"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["macos-arm64", "macos-x64", "windows-x64", "windows-arm64"])
def test_it_links(name: str, tmp_path: Path) -> None:
    try:
        find_linker(PLATFORMS[name].triple)
    except CompileError as error:
        pytest.skip(str(error))
    made = rnncc.build(rnncc.cells.lstm(3, 5), out=tmp_path, name="net", target=name)
    assert made.library is not None
    content = made.library.read_bytes()
    if name.startswith("macos"):
        assert content[:4] == b"\xcf\xfa\xed\xfe"
        assert b"@rpath/libnet.dylib\0" in content
    else:
        assert content[:2] == b"MZ"
        assert made.imports is not None and made.imports.stat().st_size > 0
    found = {match.decode() for match in re.findall(rb"net_(\w+)\0", content)}
    assert found >= EXPORTED
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {path.name for path in made.paths}
