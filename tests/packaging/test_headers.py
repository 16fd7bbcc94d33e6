"""Headers compile under every standard, whatever the net's names are."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import rnncc_runtime

import rnncc
from rnncc.names import c_name, c_names
from rnncc.packaging import texts
from rnncc.packaging.describe import STRUCTS
from tests import samples

INCLUDE = Path(rnncc_runtime.__file__).parent / "include"
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
STANDARDS = ["c99", "c11", "c17", "gnu17", "c++17", "c++20", "gnu++20"]

WORDS = """
    _Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Pragma _Static_assert
    _Thread_local alignas alignof and and_eq asm auto bitand bitor bool break case catch char
    char16_t char32_t char8_t class co_await co_return co_yield compl concept const const_cast
    consteval constexpr constinit continue decltype default delete do double dynamic_cast else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true try typedef typeid typename typeof
    typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq

    __LINE__ __FILE__ __COUNTER__ __linux__ __cplusplus __x _X ___ linux unix i386 NULL EOF errno
    INT32_MAX SIZE_MAX UINT_FAST8_MAX INT64_C PRId64 SIG_ATOMIC_MIN WCHAR_WIDTH size_t int8_t
    uint_least16_t uintptr_t max_align_t near far min max I complex stdin SIGINT EAGAIN offsetof
    inputs outputs parameters output_grads grads tape state workspace part parts counter unused
    plain_inputs plain_outputs plain_run trained_inputs trained_grads trained_forward rnncc_part
    RNNCC_PART RNNCC_OK rnncc_pool x x_2 x.2 x/2 M_SQRT1 M_SQRT1.
"""
"""Keywords, macros, types, and names of our own."""
NAMES = [*WORDS.split(), *("", "0", "*/ int", "??/", "a\nb", '"', "\\", "naïve", "a//b", "/*", " ")]


def macros() -> list[str]:
    """The macros without arguments that C's headers and the compiler itself define."""
    headers = "assert complex errno inttypes limits math pthread signal stdint stdio stdlib time"
    source = "".join(f"#include <{header}.h>\n" for header in headers.split())
    command = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-dM", "-E", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
    return re.findall(r"#define (\w+) ", done.stdout)


def metadata(model: str, names: Sequence[str], train: bool) -> dict[str, Any]:
    """A model for several threads; its arrays, and some sizes, have these names."""
    fields = c_names(names, [f"{model}_{kind}" for kind in STRUCTS])
    dtypes = "f32", "f64", "i32", "i64", "i1"
    arrays = [
        {"name": name, "c_name": field, "dtype": dtypes[number % 5], "shape": ["T"]}
        for number, (name, field) in enumerate(zip(names, fields, strict=True))
    ]
    made = {**samples.metadata(model), "symbols": ["T", "N", *names[: len(NAMES)]]}
    made |= {"inputs": arrays, "outputs": arrays[: len(NAMES)], "parameters": arrays}
    if not train:
        return {**made, "functions": {"run": 3, "run_part": 4}, "stream": {"state": "64"}}
    made |= {"trained": arrays, "output_grads": arrays, "grads": arrays, "kept": names[:9]}
    return {**made, "functions": {"forward": 5, "forward_part": 6}, "tape": "64"}


def check(folder: Path, standard: str, source: str, compiler: str, *flags: str) -> None:
    """Every header twice, behind others, compiled without a word."""
    ours = "".join(f'#include "{file}.h"\n' for file in ("rnncc", "rnncc_pool", "plain", "trained"))
    language = "c++" if "+" in standard else "c"
    command = [compiler, f"-std={standard}", *flags, "-fsyntax-only", "-x", language, "-"]
    done = subprocess.run(
        [*command, f"-I{folder}", f"-I{INCLUDE}"],
        input=source + 2 * ours,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode and not done.stderr, done.stderr[:3000]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Headers with every hostile name."""
    folder = tmp_path_factory.mktemp("headers")
    defined = [name for name in macros() if name not in NAMES]
    for model, names, train in (("plain", [*NAMES, *defined], False), ("trained", NAMES, True)):
        (folder / f"{model}.h").write_text(texts.header(metadata(model, names, train)))
    return folder


@pytest.mark.parametrize("standard", STANDARDS)
def test_hostile_names(folder: Path, standard: str) -> None:
    compiler = "c++" if "+" in standard else "cc"
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    headers = "assert errno inttypes limits signal stdio time"
    headers += "" if "+" in standard else " complex math"  # which take a second in C++
    source = "".join(f"#include <{header}.h>\n" for header in headers.split())
    check(folder, standard, source, compiler, *STRICT)


def test_a_net_of_hostile_names(tmp_path: Path) -> None:
    """From the net's file to the header: also with a size that is called as a parameter is."""
    net = tmp_path / "__net.pbtxt"
    net.write_text("""
        external_input: "__LINE__" external_output: "_Bool" external_output: "x__LINE__"
        op { type: "Relu" input: "__LINE__" output: "_Bool" }
        op { type: "Tanh" input: "__LINE__" output: "x__LINE__" }
    """)
    shapes = {"__LINE__": ("part", "inputs", 4)}
    header = rnncc.build(net, out=tmp_path, products={"h"}, shapes=shapes, threads=True).header
    assert header is not None and header.name == "x__net.h"
    (tmp_path / "plain.h").write_text('#include "x__net.h"')
    (tmp_path / "trained.h").write_text("")
    for standard, compiler in (("c99", "cc"), ("gnu++20", "c++")):
        if shutil.which(compiler):
            check(tmp_path, standard, "", compiler, *STRICT)
    text = header.read_text()
    assert "const float *x__LINE__; /* __LINE__ [part, inputs, 4] */" in text
    assert "int64_t part_2, int64_t inputs_2);" in text


def test_names_that_are_nobodys_stay() -> None:
    for name in "x X y W_x h0 L F E H_t hidden_t Y1 y_2 index time log exp input data".split():
        assert c_name(name) == name


QUIET = """
    unknown-warning-option padded declaration-after-statement unsafe-buffer-usage
    c++98-compat-pedantic old-style-cast zero-as-null-pointer-constant
""".split()
"""What clang says of any C of this kind: padding, what C89 and C++98 lack, C in C++."""


@pytest.mark.skipif(shutil.which("clang") is None, reason="no clang here")
@pytest.mark.parametrize("standard", ["c99", "c17", "c++20"])
def test_all_warnings_of_clang(folder: Path, standard: str) -> None:
    # C++ reserves `__` within a name too, which nobody uses: names of nets keep it
    quiet = [*QUIET, "reserved-identifier"] if "+" in standard else QUIET
    flags = [f"-Wno-{warning}" for warning in quiet]
    check(folder, standard, "", "clang", "-Weverything", "-Werror", *flags)
