"""Device code as NVIDIA's assembler takes it: fixed nets for every chip; what PTX must not have."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

import rnncc
from rnncc.codegen import targets
from rnncc.codegen.nvptx.device import DeviceCode, emit_device
from rnncc.codegen.nvptx.ptx import DeviceMachine, ptx_of
from rnncc.codegen.nvptx.target import NvptxTarget
from rnncc.codegen.nvptx.tensor_cores.product import SURE_SHARED
from rnncc.driver import compiling
from rnncc.errors import CompileError
from rnncc.kern.library import Library
from rnncc.options import Options
from tests.golden import CASES, arrays_of

pytestmark = pytest.mark.skipif(not CASES, reason="no golden data here")
CHIPS = ["sm_70", "sm_80", "sm_90a", "sm_100", "sm_120"]
QUICK_CHIPS = ["sm_70", "sm_90a"]
REGISTERS = 65536
"""Of a block, on every chip."""
SPILLED = 5120
"""Bytes, outside of the loops of products (`test_machine_code`): addresses of many buffers."""
NETS = ["lstm", "gru", "layernorm_lstm", "attention_regular"]

every_net = pytest.mark.parametrize(
    ("name", "train"),
    [
        pytest.param(
            name,
            train,
            id=f"{name}-{'train' if train else 'run'}",
            marks=[] if not train or name == "lstm" else [pytest.mark.slow],
        )
        for name in NETS
        for train in (False, True)
    ],
)


def tools(name: str) -> list[str]:
    """A tool of NVIDIA's wheels."""
    found = list[str]()
    for package in ("nvidia.cuda_nvcc", "nvidia.cu13", "nvidia.cuda_nvdisasm"):
        try:
            spec = find_spec(package)
        except ModuleNotFoundError:
            continue
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = Path(folder, "bin", name)
            found += [str(path)] if path.is_file() else []
    return found


@cache
def assembler(chip: str) -> str | None:
    """One that knows a chip: no version knows all."""
    for tool in tools("ptxas"):
        helped = subprocess.run([tool, "--help"], capture_output=True, text=True, check=True)
        if re.search(rf"'{chip}'", helped.stdout):
            return tool
    return None


@cache
def device_code(name: str, train: bool) -> DeviceCode:
    case = next(case for case in CASES if case.name == name)
    options = Options(name="net", target="nvptx", train=train)
    if train:
        weights = list(arrays_of(case, "weight:"))
        options = Options(name="net", target="nvptx", train=True, outputs_with_grads=weights)
    library: Library = compiling.build_library(case / "net.pb", case / "init.pb", options)
    target = targets.resolve("nvptx")
    assert isinstance(target, NvptxTarget)
    return emit_device(library, target)


@cache
def ptx(name: str, train: bool, chip: str) -> str:
    code = device_code(name, train)
    return ptx_of(code.text, DeviceMachine(chip), code.linked)


@dataclass(frozen=True)
class Usage:
    """What ptxas says of a kernel."""

    kernel: str
    registers: int
    stack: int
    spilled: int
    shared: int


def assemble(text: str, chip: str, folder: Path) -> tuple[list[Usage], Path]:
    """The kernels' needs, and machine code."""
    tool = assembler(chip)
    if tool is None:
        pytest.skip(f"no ptxas here that knows {chip}: pip install nvidia-cuda-nvcc-cu12")
    source, out = folder / "net.ptx", folder / "net.cubin"
    source.write_text(text)
    command = [tool, "-v", f"-arch={chip}", str(source), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return usages(done.stderr), out


def usages(said: str) -> list[Usage]:
    found = list[Usage]()
    for part in said.split("Compiling entry function ")[1:]:
        name = part.split("'")[1]
        [stack, *spilled] = _numbers(r"(\d+) bytes stack frame, (\d+) [^,]*, (\d+) ", part)
        [registers] = _numbers(r"Used (\d+) registers", part)
        shared = re.search(r"(\d+) bytes smem", part)
        sizes = stack, sum(spilled), int(shared[1]) if shared else 0
        found.append(Usage(name, registers, *sizes))
    return found


def _numbers(pattern: str, text: str) -> Sequence[int]:
    found = re.search(pattern, text)
    assert found, text
    return [int(number) for number in found.groups()]


def marked(chips: Sequence[str], quick: Sequence[str]) -> list[object]:
    return [pytest.param(c, marks=[] if c in quick else [pytest.mark.slow]) for c in chips]


@pytest.mark.parametrize("chip", marked(CHIPS, QUICK_CHIPS))
@every_net
def test_every_chip_takes_it(name: str, train: bool, chip: str, tmp_path: Path) -> None:
    code = device_code(name, train)
    found, _ = assemble(ptx(name, train, chip), chip, tmp_path)
    threads = {kernel.symbol: kernel.threads for kernel in code.kernels.values()}
    assert {usage.kernel for usage in found} == threads.keys()
    for usage in found:
        assert -(-usage.registers // 8) * 8 * threads[usage.kernel] <= REGISTERS, usage
        assert usage.spilled <= SPILLED, usage


@pytest.mark.parametrize("chip", marked(CHIPS[1:], QUICK_CHIPS))
@pytest.mark.parametrize("units", [256, pytest.param(1024, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_tensor_cores(cell: str, units: int, chip: str, tmp_path: Path) -> None:
    """bf16 weights stay in registers: no more of them than there are."""
    layer = getattr(rnncc.cells, cell)(units, units, layout="TNC")
    options = Options.of(layer, {"name": "net", "target": "nvptx", "precision": "bf16"})
    target = targets.resolve("nvptx")
    assert isinstance(target, NvptxTarget)
    code = emit_device(compiling.build_library(layer, None, options), target)
    text = ptx_of(code.text, DeviceMachine(chip), code.linked)
    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16" in text
    found, _ = assemble(text, chip, tmp_path)
    for usage in found:
        assert -(-usage.registers // 8) * 8 * target.threads <= REGISTERS, usage
        assert usage.spilled <= 192, usage  # as weights are read, before the first iteration


@pytest.mark.parametrize("chip", marked(CHIPS[1:], ["sm_90a"]))
@pytest.mark.parametrize("units", [256, pytest.param(768, marks=pytest.mark.slow)])
def test_training_on_tensor_cores(units: int, chip: str, tmp_path: Path) -> None:
    """Weights of backward's loop, four times as deep, stay in registers as well."""
    layer = rnncc.cells.lstm(units, units, layout="TNC")
    chosen = {"name": "net", "target": "nvptx", "precision": "bf16", "train": True}
    target = targets.resolve("nvptx")
    assert isinstance(target, NvptxTarget)
    code = emit_device(compiling.build_library(layer, None, Options.of(layer, chosen)), target)
    text = ptx_of(code.text, DeviceMachine(chip), code.linked)
    assert re.search(r"ldmatrix\S*\.trans", text)  # of sums over rows
    assert "cp.async" in text
    found, _ = assemble(text, chip, tmp_path)
    assert {usage.kernel for usage in found} == {"net_forward", "net_backward"}
    for usage in found:
        assert usage.spilled <= 512, usage  # as weights are read, and around inner loops
    for kernel in code.kernels.values():
        assert kernel.shared <= SURE_SHARED


def test_old_chips_have_no_tensor_cores() -> None:
    layer = rnncc.cells.lstm(8, 8)
    with pytest.raises(CompileError, match="sm_75 has no tensor cores for bf16"):
        rnncc.build(layer, out="unused", target="nvptx", cpu="sm_75", precision="bf16")


@every_net
def test_what_orders_stands_behind_a_fence(name: str, train: bool) -> None:
    """LLVM 22 drops the order of atomics: each addition that others wait for has its own fence."""
    text = ptx(name, train, "sm_70")
    assert not re.findall(r"^\s*call[^;]*llvm", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("//", "mov", "$", "ld.param"))]
    ordering = [i for i, line in enumerate(lines) if re.match(r"(?:@%\w+ )?(?:atom|red)\.", line)]
    assert ordering
    for i in ordering:
        assert lines[i - 1].startswith("fence.acq_rel.gpu"), lines[i - 3 : i + 1]
    assert not re.search(r"\b(?:atom|red|fence)\S*\.sys\b", text)


@pytest.mark.parametrize("name", ["lstm"])
def test_launches_expect_the_threads_that_they_get(name: str) -> None:
    code, text = device_code(name, False), ptx(name, False, "sm_70")
    for kernel in code.kernels.values():
        entry = text[text.index(f".entry {kernel.symbol}(") :].partition("{")[0]
        assert f".reqntid {kernel.threads}" in entry
        assert ".minnctapersm 1" in entry


LOCAL = re.compile(r"\b(?:LDL|STL)\b")
FENCE = re.compile(r"\bMEMBAR\.(\S+)")
TILE = 8
"""Terms that an iteration of such a loop adds, at least; others are of small products."""
TERM = re.compile(r"\b(?:FFMA|HMMA)\b")


def innermost(listing: str) -> list[list[str]]:
    """The instructions of each loop that has no other within it."""
    labels, code = dict[str, int](), list[str]()
    for line in listing.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(code)
        elif instruction := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            code.append(instruction[1])
    jumps = [(re.search(r"\bBRA\b.*\((\.L_x_\d+)\)", text), i) for i, text in enumerate(code)]
    places = [(labels.get(jump[1], i + 1), i) for jump, i in jumps if jump]
    loops = [(first, last) for first, last in places if first <= last]
    inner = [
        (a, b)
        for a, b in loops
        if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in loops)
    ]
    return [code[first : last + 1] for first, last in inner]


@pytest.mark.parametrize("chip", marked(["sm_80", "sm_90a"], ["sm_90a"]))
@every_net
def test_machine_code(name: str, train: bool, chip: str, tmp_path: Path) -> None:
    """Loops of products keep their sums in registers; fences are of the GPU, not of the system."""
    if not (found := tools("nvdisasm")):
        pytest.skip("no nvdisasm here: pip install nvidia-cuda-nvdisasm")
    _, cubin = assemble(ptx(name, train, chip), chip, tmp_path)
    command = [found[0], "-c", str(cubin)]
    listing = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    products = [
        loop for loop in innermost(listing.stdout) if sum(map(bool, map(TERM.search, loop))) >= TILE
    ]
    assert products
    for loop in products:
        assert not [text for text in loop if LOCAL.search(text)]
        assert not [text for text in loop if FENCE.search(text)]
    fences = {fence.rstrip(" ;") for fence in FENCE.findall(listing.stdout)}
    assert fences
    assert all(fence.endswith("GPU") for fence in fences), fences
