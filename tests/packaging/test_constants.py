"""What a microcontroller reserves statically: the bytes of memory as constants of C."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import rnncc
from rnncc.driver.compiling import compile_object
from rnncc.kern.largest import Largest
from rnncc.options import Options
from rnncc.packaging.formulas import c_largest
from rnncc.packaging.texts import header

CC = shutil.which("cc")
SIZES = [(1, 1), (7, 3), (50, 2), (51, 2)]
FORMULAS = [
    "max(40*T*N, 16*T*N + 4096, 512)",
    "8*(T + 1)/2*N + 64*max(T - 5, 0)",
    "12",
]


def values(folder: Path, text: str, names: list[str]) -> list[list[int]]:
    """What macros give for `SIZES`, of which also arrays are reserved."""
    calls = [f"{name}({t}, {n})" for name in names for t, n in SIZES]
    arrays = "".join(f"static char room{i}[{call}];\n" for i, call in enumerate(calls))
    told = "".join(f'printf("%zu\\n", sizeof room{i});\n' for i in range(len(calls)))
    (folder / "main.c").write_text(
        f"{text}\n#include <stdio.h>\n{arrays}int main(void) {{\n{told}return 0;\n}}\n"
    )
    flags = ["-std=c99", "-pedantic-errors", "-Wall", "-Werror"]
    subprocess.run([str(CC), *flags, "main.c", "-o", "main"], cwd=folder, check=True)
    done = subprocess.run(["./main"], cwd=folder, check=True, capture_output=True, text=True)
    numbers = list(map(int, done.stdout.split()))
    return [numbers[at : at + len(SIZES)] for at in range(0, len(numbers), len(SIZES))]


@pytest.mark.skipif(CC is None, reason="no C compiler here")
def test_constants_are_the_formulas(tmp_path: Path) -> None:
    """Of a library, and of formulas with all that there is in them."""
    options = Options(name="net", target="cortex-m4", train=True)
    metadata = compile_object(rnncc.cells.gru(3, 5), None, options).metadata
    known = {"net_WORKSPACE_BYTES": metadata["workspace"], "net_TAPE_BYTES": metadata["tape"]}
    streaming = compile_object(
        rnncc.cells.gru(3, 5), None, replace(options, train=False, name="own")
    )
    stream = streaming.metadata["stream"]
    known |= {"own_STREAM_WORKSPACE_BYTES": stream["workspace"]}
    text = header(metadata) + header(streaming.metadata)
    for number, formula in enumerate(FORMULAS):
        text += f"#define F{number}(T, N) ({c_largest(formula, {'T': 'T', 'N': 'N'})})\n"
        known[f"F{number}"] = formula
    want = [
        [Largest.parse(formula).evaluate({"T": t, "N": n}) for t, n in SIZES]
        for formula in known.values()
    ]
    assert values(tmp_path, text, list(known)) == want


def test_where_there_is_a_system_functions_tell(tmp_path: Path) -> None:
    made = rnncc.build(rnncc.cells.gru(3, 5), out=tmp_path, name="net", products=["h"])
    assert made.header is not None and "_BYTES(" not in made.header.read_text()
