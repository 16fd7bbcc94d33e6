"""Writes docs/targets.md from the tables of platforms, linkers and runners.

python -m tools.write_targets
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rnncc.codegen import targets
from rnncc.driver.remote.runners import BOARDS, EMULATED
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

`--target` takes a name of this table or an LLVM triple of one of its kinds, such as
`riscv64-linux-musl`; `--cpu` names another CPU of the kind. Without it code is for this machine.
*Floats* is how many a vector holds.

"""
SYSTEM_NOTES = """
## Files, and what makes them

A library is linked by what is found on the machine; objects, static libraries and headers need no
linker. `ziglang` is the Python package of that name.

"""
BITS = """
## Results

Random numbers, integers and int8 sums have the same bits everywhere. Floats have those of x86-64
code of vectors of as many lanes, where both fuse multiply and add or neither does: `wasm32` and
`wasm64` give the bits of `x86-64-v2`, the others those of x86-64 with FMA. Only sums whose order is
free, such as those of softmax, of norms and of whole axes, depend on the lanes. `wasm32-relaxed`
leaves to the engine whether products that are added are rounded before: where the CPU fuses both,
its floats have the bits of x86-64 with FMA, elsewhere those of `wasm32`, so that they may differ
from machine to machine; nothing else is relaxed. `armv7` takes numbers below
2^-126 as zero in vectors, as NEON does. `c99` sums from the first term to the last: it rounds
otherwise.

## What a library needs of others

Code and constants alone, as everywhere ([abi.md](abi.md)), but for the constructor of one with AMX,
which makes a system call by itself. What it may call:

| system | functions |
|---|---|
| all but WebAssembly | `memcpy`, `memset`, `memmove` (also as `__aeabi_memcpy...`) |
| Linux | `getauxval`, of `NAME_supported` for CPUs with extensions |
| Windows | `__chkstk` or `___chkstk_ms`, of the compiler: frames of more than a page |
| 32-bit Arm, RISC-V | casts of 64 bits, and division of int64 (`__aeabi_ldivmod`, `__divdi3`) |
| ARMv7 | division (`__aeabi_idiv`) of the compiler's |
| the same | of libm `floor`, `ceil`, `trunc`, also with `f`, where the FPU has none |
| Cortex-M4, M33, riscv32 | for float64 and remainders: doubles of the compiler's, `fma`, `sqrt` |

The compiler's are in libgcc or compiler-rt, which C compilers link by themselves. Nothing refers to
unwinding on Arm, RISC-V and WebAssembly. A `.dll` has the compiler's functions inside, and imports
`msvcrt.dll`. `size_t` has 32 bits on `armv7`, `riscv32`, `wasm32` and Cortex-M: what does
not fit is out of range (`(size_t)-1`). Where integers have 32 bits (ARMv7, RISC-V 32, Cortex-M), so
is a product of all sizes, T times N, of 2^31 or more.

## Python on other systems

`rnncc_runtime.load` takes `NAME.dll` on Windows and `libNAME.dylib` on macOS as it takes
`libNAME.so` on Linux. What differs is handled, and tested on Linux by taking away what others lack;
with a Python of Windows or macOS nobody here has run it. A library of another system or machine is
refused with what it is for; `rnncc_runtime.describe` reads what any of them says of itself.

## Microcontrollers

`libNAME.a` and `NAME.h`: weights are constants, in flash; state, workspace and arrays are the
caller's, who can reserve them statically, at multiples of 8 bytes: the header has their bytes as
macros too, `NAME_STATE_BYTES(N)`, `NAME_STREAM_WORKSPACE_BYTES(T, N)` for `NAME_state_init` and
`NAME_step` alone, and `NAME_WORKSPACE_BYTES(T, N)` for all functions. Floats are passed in
registers (`-mfloat-abi=hard`, for RISC-V `-mabi=ilp32f`). The FPU, and Helium, must be enabled
before the first call.
[examples/microcontroller](../examples/microcontroller/main.c) is the main loop of a Cortex-M4, a
step a sample, without an allocator or a system; `make run` there runs it in qemu.

Code is short: each kernel is written once, for a row at a time, tanh and its like are functions,
and one step is computed ahead, not some dozens. Each function has a section of its own, so that
`--gc-sections` drops those that a program does not call, and the metadata. What a library takes:

```sh
rnncc plan examples/lstm.pbtxt examples/lstm_init.pbtxt --target cortex-m4 --max-steps 1
```

shows flash by the sections of the object, and RAM: state and workspace
([planning.md](planning.md#on-a-machine)). `--max-steps 1` leaves out what longer sequences need. A
GRU of 16 units with 16 inputs, for a Cortex-M4, all functions:

| weights | their bytes | code and constants | metadata | flash | state and workspace |
| --- | --- | --- | --- | --- | --- |
| fp32 | 6,468 | 1,994 | 1,067 | 9,529 | 328 |
| int8 | 2,372 | 2,570 | 1,073 | 6,015 | 368 |

A step of it takes about 16,600 and 14,900 cycles on a Cortex-M4, by Arm's timings of instructions,
as the same command tells ([planning.md](planning.md#on-a-machine) says what that leaves out).

Others on the same nets, in a program that calls a step and nothing else, with `-Os` and newlib
(the empty program has 1,068 bytes); RTNeural (1fb1f07) with its STL back end, `GRULayerT` and
`LSTMLayerT` without a loader; onnx2c (ea045cc) has no GRU:

| | flash of GRU(16, 16) | of LSTM(16, 16) | RAM beside the arrays |
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

Arrays are flat typed arrays, row-major. `T` follows from the first input with T, other sizes are 1
unless given. `run` returns arrays of its own, `step` views of the module's memory, which the next
call overwrites. In an AudioWorklet there is no `fetch`: compile the module on the page, hand it
over in `processorOptions`, and make `new Net(module)`, as
[examples/web](../examples/web/worklet.js) does. Nets for training have no such module; take
`wasm` and `h`. The stack has 128 KB.

`wasm32-relaxed` multiplies and adds in one instruction (`relaxed_madd`): a step of an LSTM of 128
units took 5.1 µs in node 24 on a Zen 4, 7.9 µs without. `wasm64` is for nets beyond 4 GB: its
module is called alike, addresses are 64-bit inside; where 4 GB do, `wasm32` is quicker (9.0 µs).
Both need newer engines: relaxed SIMD node 21, Chromium 114 or Firefox 146; 64-bit memory node 24,
Chromium 133 or Firefox 134; wasmtime has both, Safari neither. An engine that lacks one refuses the
module when it compiles it.

## Running code of other machines

`rnncc run --target` and `rnncc check --target` compile the library, a C program that serves its
functions, and run that; each call is a process of its own, and the end of every array is checked.
`check` compares forward and backward with the interpreter. For Linux with musl, name the triple,
such as `x86_64-linux-musl`: the library is the same, and musl's gcc or ziglang links a program that
runs it. In tests, `make targets` runs all golden nets on all targets that something here runs, and
says what is missing for the others. What has no runner is linked, and what it exports is checked;
`lld-link`, a linker of MSVC's form, takes the objects and libraries of Windows.

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
