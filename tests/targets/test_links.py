"""Libraries of systems that are not run here: they link, export what they should, and no more."""

from __future__ import annotations

import re
import shutil
import subprocess
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
    folder = tmp_path / "with,comma"
    made = rnncc.build(rnncc.cells.lstm(3, 5), out=folder, name="net", target=name)
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
    files = {path.name for path in folder.iterdir()}
    assert files == {path.name for path in made.paths}


MAIN = """#include "net.h"
static float x[2 * 1 * 3] = {1, 2, 3, -1, 0, 1}, y[2 * 5], h[5], c[5];
static union { double aligned; char bytes[65536]; } workspace;
int start(void) {
    net_inputs in = {.x = x};
    net_outputs out = {y, h, c};
    if (net_workspace_bytes(2, 1) > sizeof workspace) return 1;
    int code = net_run(&in, &out, &workspace, 2, 1);
    return code ? code + 1 : y[9] == h[4] && y[9] != 0 ? 77 : 2;
}
"""
HELPERS = ["/alternatename:__chkstk=___chkstk_ms", "/alternatename:_fltused=start"]
"""What MSVC's libraries hold, of mingw's under another name."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "file"), [("windows-x64", "lib"), *(("x86_64-pc-windows-msvc", f) for f in "oa")]
)
def test_microsofts_linker_takes_it(target: str, file: str, tmp_path: Path) -> None:
    """Import libraries, objects and static libraries, in the form of `lld-link`, and they run."""
    compiler, linker = shutil.which("x86_64-w64-mingw32-gcc"), shutil.which("lld-link")
    if compiler is None or linker is None:
        pytest.skip("no lld-link, or no mingw")
    products = [file, "h", *(["dll"] if file == "lib" else [])]
    made = rnncc.build(
        rnncc.cells.lstm(3, 5), out=tmp_path, name="net", target=target, products=products
    )
    library = {"lib": made.imports, "o": made.object, "a": made.archive}[file]
    (tmp_path / "main.c").write_text(MAIN)
    run(tmp_path, compiler, "-ffreestanding", "-c", "main.c", "-o", "main.obj")
    helpers = run(tmp_path, compiler, "-print-libgcc-file-name").strip()
    more = [helpers, *HELPERS] if file != "lib" else []
    words = ["/nologo", "/entry:start", "/subsystem:console", "main.obj", str(library), *more]
    run(tmp_path, linker, *words, "/out:main.exe")
    if wine := shutil.which("wine"):
        assert subprocess.run([wine, "main.exe"], cwd=tmp_path, check=False).returncode == 77


def run(folder: Path, *command: str) -> str:
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_a_dll_for_msvc_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="found no linker for x86_64-pc-windows-msvc") as told:
        rnncc.build(
            rnncc.cells.lstm(3, 5), out=tmp_path, target="x86_64-pc-windows-msvc", products=["dll"]
        )
    assert "DLL and .lib of windows-x64" in str(told.value.hint)
