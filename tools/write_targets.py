"""Writes docs/targets.md from the tables of platforms, linkers and runners.

python -m tools.write_targets
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rnncc.codegen import targets
from rnncc.driver.remote.boards import BOARDS
from rnncc.driver.remote.runners import EMULATED
from rnncc.packaging.linkers import HINTS
from rnncc.platforms import PLATFORMS, SYSTEMS, Platform, architecture_of
from tools.wrapping import wrap

PAGE = Path(__file__).parents[1] / "docs" / "targets.md"
HEAD = """# Targets

Written by `tools/write_targets.py` from the code's tables; do not edit.

```console
$ rnncc targets                                            # and what this machine can link and run
$ rnncc compile net.onnx --target cortex-m4 -o build       # libnet.a and net.h
$ rnncc check net.onnx --target cortex-m4                  # by an emulator, with the interpreter
```

`--target` takes a name from this table, or an LLVM triple of one of these kinds, such as
`riscv64-linux-musl`; `--cpu` selects another CPU of that kind. Without `--target`, code is for this
machine. *Floats* is the number of floats in a vector.

"""
SYSTEM_NOTES = """
## Files, and what makes them

A library is linked with a linker that is found on the machine; objects, static libraries and
headers need none. `ziglang` is the Python package of that name.

"""
BITS = """
## Results

Random numbers, integers and int8 sums have the same bits everywhere. Floats have the same bits as
x86-64 code with the same number of vector lanes, if both fuse multiply and add or neither does:
`wasm32` and `wasm64` give the bits of `x86-64-v2`, the others those of x86-64 with FMA. Only sums
whose order is unspecified, such as those of softmax, of norms and over whole axes, depend on the
number of lanes. `wasm32-relaxed` leaves it to the engine whether a product is rounded before it is
added: if the CPU fuses the two, its floats have the bits of x86-64 with FMA, otherwise those of
`wasm32`, so they may differ between machines; nothing else is relaxed. `armv7` flushes numbers
below 2^-126 to zero, as NEON does, and so does `cortex-m55`. `c99` sums from the first term to the
last, and so rounds differently.

## What a library needs of others

A library consists only of code and constants on every target ([abi.md](abi.md)), except that one
with AMX has a constructor, which makes its system call directly. These are the external functions
that it may call:

| system | functions |
|---|---|
| all but WebAssembly | `memcpy`, `memset`, `memmove` (also as `__aeabi_memcpy...`) |
| Linux | `getauxval`, from `NAME_supported` for CPUs with extensions |
| Windows | `__chkstk` or `___chkstk_ms`, from the compiler's runtime: frames of more than a page |
| 32-bit Arm, RISC-V | 64-bit casts, and division of int64 (`__aeabi_ldivmod`, `__divdi3`) |
| ARMv7 | division (`__aeabi_idiv`) from the compiler's runtime |
| Cortex-M4, M33, riscv32 | for float64 and remainders: the compiler's soft float64, `fma`, `sqrt` |

The compiler's functions are in libgcc or compiler-rt, which C compilers link by default. On Arm,
RISC-V and WebAssembly there are no references to unwinding. A `.dll` includes the compiler's
functions and imports `msvcrt.dll`. `size_t` has 32 bits on `armv7`, `riscv32`, `wasm32` and
Cortex-M: a number of bytes that does not fit is out of range (`(size_t)-1`). On machines with
32-bit integers (ARMv7, RISC-V 32, Cortex-M), so is a product of all sizes, T times N, of 2^31 or
more.

## Python on other systems

`rnncc_runtime.load` loads `NAME.dll` on Windows and `libNAME.dylib` on macOS as it loads
`libNAME.so` on Linux. The differences between systems are handled, and tested on Linux by disabling
what the other systems lack; it has not been run with Python on Windows or macOS. A library for
another system or machine is refused with an error that names its target; `rnncc_runtime.describe`
reads the metadata of any library.

## Microcontrollers

`libNAME.a` and `NAME.h`: weights are constants, in flash; state, workspace and arrays belong to the
caller, who can allocate them statically, aligned to 8 bytes: the header also has their sizes as
macros, `NAME_STATE_BYTES(N)`, `NAME_STREAM_WORKSPACE_BYTES(T, N)` for `NAME_state_init` and
`NAME_step` alone, and `NAME_WORKSPACE_BYTES(T, N)` for all functions. Floats are passed in
registers (`-mfloat-abi=hard`, for RISC-V `-mabi=ilp32f`). The FPU, and Helium, must be enabled
before the first call. [examples/microcontroller](../examples/microcontroller/main.c) is the main
loop of a Cortex-M4, one step per sample, without an allocator or an operating system; `make run`
there runs it in qemu.

Code is kept small: each kernel exists once, for one row at a time, tanh and similar functions are
not inlined, and input projections are computed one step ahead, not a few dozen. Each function has
its own section, so that `--gc-sections` drops the functions that a program does not call, and the
metadata. The memory that a library takes:

```sh
rnncc plan examples/lstm.pbtxt examples/lstm_init.pbtxt --target cortex-m4 --max-steps 1
```

shows flash by sections of the object, and RAM: state and workspace
([planning.md](planning.md#on-a-machine)). `--max-steps 1` leaves out the memory that longer
sequences need. A GRU of 16 units with 16 inputs, for a Cortex-M4, all functions:

| weights | bytes of weights | code and constants | metadata | flash | state and workspace |
| --- | --- | --- | --- | --- | --- |
| fp32 | 6,468 | 1,994 | 1,067 | 9,529 | 328 |
| int8 | 2,372 | 2,570 | 1,073 | 6,015 | 368 |

A step takes about 16,600 cycles with fp32 and 14,900 with int8 on a Cortex-M4, by Arm's instruction
timings, as the same command reports ([planning.md](planning.md#on-a-machine) says what this
estimate leaves out).

Other libraries on the same nets, in a program that only calls a step, with `-Os` and newlib (the
empty program has 1,068 bytes): RTNeural (1fb1f07) with its STL back end, `GRULayerT` and
`LSTMLayerT` without a loader; onnx2c (ea045cc) has no GRU:

| | flash of GRU(16, 16) | of LSTM(16, 16) | RAM in addition to the arrays |
| --- | --- | --- | --- |
| rnncc, fp32 | 8,916 | 11,124 | 328, 520 |
| rnncc, int8 | 5,396 | 6,216 | 368, 560 |
| RTNeural | 3,808 and weights (6,528) | 3,932 and weights (8,448) | 7,000, 9,192: weights too |
| onnx2c | | 11,980 | 344 of stack |

## WebAssembly

`NAME.wasm` imports nothing and exports its memory. `NAME.js` is an ES module without dependencies,
`NAME.d.ts` its types:

```js
import { load } from "./net.js";

const net = await load();                     // or load(bytes), load(module)
const { y } = net.run({ x: samples }, { N: 1 });
const stream = net.stream({ N: 1 });          // a state of its own
stream.prepare(128);                          // steps a call: then nothing is allocated
const block = stream.step({ x: samples.subarray(0, 128) }).y;
```

Arrays are flat typed arrays, row-major. `T` follows from the first input with T; other sizes are 1
unless given. `run` returns new arrays, and `step` returns views of the module's memory, which the
next call overwrites. An AudioWorklet has no `fetch`: compile the module on the page, pass it in
`processorOptions`, and construct `new Net(module)`, as [examples/web](../examples/web/worklet.js)
does. Nets for training have no such module; use `wasm` and `h`. The stack has 128 KB.

`wasm32-relaxed` multiplies and adds in one instruction (`relaxed_madd`): a step of an LSTM of 128
units took 5.1 µs in node 24 on a Zen 4, 7.9 µs without. `wasm64` is for nets beyond 4 GB: its
module has the same interface, with 64-bit addresses inside; if 4 GB suffice, `wasm32` is faster
(9.0 µs with `wasm64`). Both need newer engines: relaxed SIMD node 21, Chromium 114 or Firefox 146;
64-bit memory node 24, Chromium 133 or Firefox 134; wasmtime has both, Safari neither. An engine
that lacks one refuses the module when it compiles it.

## Running code of other machines

`rnncc run --target` and `rnncc check --target` compile the library and a C program that exposes its
functions, and run the program; each call is a separate process, and every array is checked for
writes past its end. `check` compares forward and backward with the interpreter. For Linux with
musl, name the triple, such as `x86_64-linux-musl`: the library is the same, and musl's gcc or
ziglang links a program that runs it. For tests, `make targets` runs all golden nets on all targets
that have a runner on this machine, and says what is missing for the others. Libraries for targets
without a runner are linked, and their exports are checked; for Windows, `lld-link`, a linker
compatible with MSVC's, accepts the objects and libraries.

"""


def page() -> str:
    """docs/targets.md"""
    rows = [_row(platform) for platform in PLATFORMS.values()]
    rows.append(("`c99`", "any, by a C compiler", "", "", "1", _files("c99")))
    columns = ("`--target`", "machine", "triple", "CPU", "floats", "files without `--products`")
    text = HEAD + _table(columns, rows) + SYSTEM_NOTES
    text += _table(("system", "files", "a linker, or what to install"), map(_system, SYSTEMS))
    return wrap(text + BITS + _table(("`--target`", "run by"), _runs()))


def _row(row: Platform) -> Sequence[str]:
    name, lanes = row.name, str(row.lanes)
    return f"`{name}`", row.title, f"`{row.triple}`", f"`{row.cpu}`", lanes, _files(name)


def _files(name: str) -> str:
    return ", ".join(f"`{kind}`" for kind in targets.row_of(name).by_default)


def _system(name: str) -> Sequence[str]:
    files = ", ".join(f"`{kind}`" for kind in SYSTEMS[name].products)
    return SYSTEMS[name].title, files, HINTS.get(name, "none is needed")


def _runs() -> Iterable[Sequence[str]]:
    """Which emulator runs what."""
    for name, row in PLATFORMS.items():
        architecture = architecture_of(row.triple)
        found = EMULATED.get((row.system, architecture))
        if name in BOARDS:
            yield f"`{name}`", f"`{BOARDS[name].command}`"
        elif found is not None:
            yield f"`{name}`", found
        else:
            same = EMULATED["linux", architecture]
            yield f"`{name}`", f"nothing; the same CPU's code for Linux: {same}"
    yield "`c99`", "any C compiler here"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page())
