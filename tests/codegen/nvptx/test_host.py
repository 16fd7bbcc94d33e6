"""The host's part of a GPU library: what it refuses, and what it asks of the driver."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from rnncc.codegen.llvm import objects
from rnncc.codegen.nvptx.host.entries import needed_inputs, write_host
from rnncc.codegen.nvptx.ptx import ChipImage
from rnncc.kern.entry_points import entry_points
from rnncc.kern.entry_steps import Call, EntryPoint
from tests.codegen.nvptx.hosted import (
    RESIDENT,
    Hosted,
    HostOnly,
    address,
    device_of,
    hosted,
    table,
)
from tests.golden import CASES, OWN

LSTM = OWN / "caffe2" / "lstm"
NULL, BAD_SIZE, FAILED = 1, 2, -7
STATUS, STREAM, SYNC = 0x99, 0x42, 256
BLOCKS = {"workspace": 0x50000, "state": 0x60000, "tape": 0x70000}
AT = {"inputs": 0x1000_0000, "outputs": 0x2000_0000, "parameters": 0x3000_0000}
AT |= {"output_grads": 0x4000_0000, "grads": 0x5000_0000}


@cache
def of_case(case: Path, train: bool = False) -> Hosted:
    options = {"train": True} if train else {}
    made = hosted(case / "net.pb", case / "init.pb", **options)
    made.fails = 0
    return made


def entry_of(made: Hosted, name: str) -> EntryPoint:
    return next(one for one in entry_points(made.library) if one.name == name)


def call(
    made: Hosted,
    name: str,
    sizes: Mapping[str, int] = MappingProxyType({}),
    null: str = "",
    field: tuple[str, int] | None = None,
) -> int:
    """Call a function with pointers that tell which they are, but for one that is NULL."""
    entry = entry_of(made, name)
    held: list[Any] = []
    arguments: list[int] = []
    for block in entry.parameters:
        pointer = BLOCKS.get(block, 0)
        if block in AT:
            pointers = [AT[block] + 4096 * i for i in range(64)]
            if field is not None and field[0] == block:
                pointers[field[1]] = 0
            held.append(table(pointers))
            pointer = address(held[-1])
        arguments.append(0 if block == null else pointer)
    cuda = 0 if null == "cuda" else made.cuda
    values = [{"T": 7, "N": 3, **sizes}.get(symbol, 2) for symbol in entry.symbols]
    return made.call(f"{name}_cuda", cuda, *arguments, STATUS, STREAM, *values)


def launches(made: Hosted) -> list[Any]:
    return [one for one in made.calls if one[0] == "launch"]


def test_run_clears_and_launches() -> None:
    made = of_case(LSTM)
    assert call(made, "run") == 0
    at = BLOCKS["workspace"]
    kinds = [one[0] for one in made.calls]
    assert kinds == ["set", "set", "launch", "set", "launch"]
    assert made.calls[0] == ("set", STATUS, 0, 1, STREAM)
    assert made.calls[1] == ("set", at, 0, SYNC // 4, STREAM)
    assert made.calls[3] == ("set", at, 0, SYNC // 4 - 1, STREAM)  # what failed stays
    for one, (name, program) in zip(launches(made), made.library.programs.items(), strict=True):
        assert one[1] == name
        weights, workspace, sync, status, seal, value, *rest = one[5]
        assert (weights, sync, status, seal, value) == (made.weights, at, STATUS, 0, 0)
        assert workspace >= at + SYNC
        assert len(rest) == len(program.inputs) + len(program.outputs) + 2
        assert rest[-2:] == [7, 3]


def test_values_between_programs_lie_behind_the_meeting_place() -> None:
    made = of_case(LSTM)
    assert call(made, "run") == 0
    begin, step = launches(made)
    program = made.library.programs["init"]
    outputs = begin[5][6 + len(program.inputs) : -2]
    given = [pointer for pointer in outputs if pointer]
    assert given and all(pointer >= BLOCKS["workspace"] + SYNC for pointer in given)
    assert set(given) <= set(step[5])


@pytest.mark.parametrize(("batch", "blocks"), [(0, 4), (1, 4), (3, 5), (4, RESIDENT), (500, 6)])
def test_a_launch_has_blocks_that_have_work_and_fit(batch: int, blocks: int) -> None:
    made = of_case(LSTM)
    assert call(made, "run", {"N": batch}) == 0
    for number, one in enumerate(launches(made)):
        assert one[2:5] == ((blocks, 1, 1, 256, 1, 1), 1024 * number, STREAM)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_net_has_its_functions(case: Path) -> None:
    made = of_case(case)
    for entry in entry_points(made.library):
        assert call(made, entry.name) == 0
        calls = [step for step in entry.steps if isinstance(step, Call)]
        assert [one[1] for one in launches(made)] == [one.program for one in calls]


@pytest.mark.parametrize("train", [False, True])
def test_null_is_refused_before_anything_is_enqueued(train: bool) -> None:
    made = of_case(LSTM, train)
    for entry in entry_points(made.library):
        for block in ("cuda", *entry.parameters):
            expected = 0 if block == "workspace" and not has_calls(entry) else NULL
            assert call(made, entry.name, null=block) == expected, (entry.name, block)
            assert expected == 0 or not made.calls


def has_calls(entry: EntryPoint) -> bool:
    return any(isinstance(step, Call) for step in entry.steps)


@pytest.mark.parametrize("train", [False, True])
def test_an_input_that_is_needed_and_null_is_refused(train: bool) -> None:
    made = of_case(LSTM, train)
    for entry in entry_points(made.library):
        for one in (step for step in entry.steps if isinstance(step, Call)):
            program = made.library.programs[one.program]
            for port, source in zip(program.inputs, one.inputs, strict=True):
                if hasattr(source, "struct"):
                    field = source.struct, source.number  # type: ignore[union-attr]
                    expected = NULL if port.name in needed_inputs(program) else 0
                    assert call(made, entry.name, field=field) == expected, port.name


def test_absent_outputs_are_null() -> None:
    made = of_case(LSTM)
    assert call(made, "run", field=("outputs", 0)) == 0
    given = launches(made)[-1][5]
    assert AT["outputs"] not in given
    assert AT["outputs"] + 4096 in given


@pytest.mark.parametrize("sizes", [{"T": -1}, {"N": -1}, {"T": 1 << 31}, {"T": 1 << 30, "N": 4096}])
def test_sizes_out_of_range(sizes: dict[str, int]) -> None:
    made = of_case(LSTM)
    assert call(made, "run", sizes) == BAD_SIZE
    assert not made.calls
    full = {"T": 7, "N": 3, **sizes}
    assert made.functions["workspace_bytes_cuda"](full["T"], full["N"]) == -1


def test_sizes_have_room_for_the_meeting_place() -> None:
    made = of_case(LSTM)
    planned = made.library.workspace.evaluate({"T": 7, "N": 3})
    assert made.functions["workspace_bytes_cuda"](7, 3) == planned + SYNC
    state = made.library.streaming
    assert state is not None
    assert made.functions["state_bytes_cuda"](3) == state.bytes.evaluate({"N": 3})
    assert str(planned + SYNC - 1) not in made.metadata["workspace"]


@pytest.mark.parametrize("number", range(1, 6))
def test_what_the_driver_refuses_ends_the_call(number: int) -> None:
    made = of_case(LSTM)
    made.fails = number
    try:
        assert call(made, "run") == FAILED
        assert len(made.calls) == number
    finally:
        made.fails = 0


def test_status_may_be_null() -> None:
    made = of_case(LSTM)
    ins, outs = table([4096] * 16), table([8192] * 16)
    arguments = made.cuda, address(ins), address(outs), BLOCKS["workspace"], 0, STREAM, 7, 3
    assert made.call("run_cuda", *arguments) == 0
    assert [one[0] for one in made.calls] == ["set", "launch", "set", "launch"]
    assert all(one[5][3] == 0 for one in launches(made))


def test_a_step_copies_the_next_state_within_the_stream() -> None:
    made = of_case(LSTM)
    streaming = made.library.streaming
    assert streaming is not None
    assert call(made, "step") == 0
    copied = sum(slot.bytes.evaluate({"N": 3}) for slot in streaming.copied)
    copies = [one for one in made.calls if one[0] == "copy"]
    expected = ("copy", BLOCKS["state"], BLOCKS["workspace"] + SYNC, copied, STREAM)
    assert copies == ([expected] if copied else [])


def test_forward_leaves_pointers_and_no_seal() -> None:
    made = of_case(LSTM, train=True)
    training = made.library.training
    assert training is not None
    assert call(made, "forward") == 0
    tape = BLOCKS["tape"]
    assert ("set", tape, 0, 2, STREAM) in made.calls
    for name in training.kept:
        number = [port.name for port in training.outputs].index(name)
        place = tape + int(training.pointer_to(name))
        assert ("set", place, AT["outputs"] + 4096 * number, 1, STREAM) in made.calls
        assert ("set", place + 4, 0, 1, STREAM) in made.calls
    (one,) = launches(made)
    assert one[5][4] == tape
    assert one[5][5] & 1


def test_both_passes_agree_on_the_seal_and_sizes_change_it() -> None:
    made = of_case(LSTM, train=True)
    seals = set[int]()
    for steps in (7, 8):
        assert call(made, "forward", {"T": steps}) == 0
        forward = launches(made)[0][5][5]
        assert call(made, "backward", {"T": steps}) == 0
        assert launches(made)[0][5][4:6] == [BLOCKS["tape"], forward]
        assert made.calls[-1] == ("set", BLOCKS["tape"], 0, 2, STREAM)  # used up
        seals.add(forward)
    assert len(seals) == 2


def test_parameters_begin_as_copies_of_the_weights() -> None:
    made = of_case(LSTM, train=True)
    assert call(made, "init_parameters") == 0
    copies = [one for one in made.calls if one[0] == "copy"]
    expected = [
        ("copy", AT["parameters"] + 4096 * i, made.weights + one.offset, one.array.nbytes, STREAM)
        for i, one in enumerate(made.library.initial)
    ]
    assert copies == expected


class Held(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int32),
        ("binaries", ctypes.c_int32),
        ("kernels", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("binary", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
    ]


class Binary(ctypes.Structure):
    _fields_ = [("chip", ctypes.c_char_p), ("data", ctypes.c_void_p), ("bytes", ctypes.c_int64)]


class Listed(ctypes.Structure):
    _fields_ = [
        ("symbol", ctypes.c_char_p),
        ("threads", ctypes.c_int32),
        ("shared", ctypes.c_int32),
    ]


def test_the_image() -> None:
    made = of_case(LSTM)
    held = Held.from_address(made.functions["cuda_image"]())
    assert (held.version, held.binaries, held.kernels, held.name) == (1, 2, 2, b"net")
    assert (held.weights, held.bytes) == (None, made.library.weights)
    binaries = (Binary * 2).from_address(held.binary)
    assert [(one.chip, one.bytes) for one in binaries] == [(b"ptx", 11), (b"sm_80", 256)]
    data = [ctypes.string_at(one.data, one.bytes) for one in binaries]
    assert data == [b"// nothing\0", bytes(range(256))]
    assert all(one.data % 64 == 0 for one in binaries)
    kernels = (Listed * 2).from_address(held.kernel)
    told = [(one.symbol, one.threads, one.shared) for one in kernels]
    assert told == [(b"net_init", 256, 0), (b"net_step", 256, 1024)]


def test_the_metadata() -> None:
    made = of_case(LSTM)
    text = ctypes.string_at(made.functions["metadata"]())
    told = json.loads(text)
    assert told["device"] == "cuda"
    assert told["functions"] == {"run_cuda": 6, "step_cuda": 7, "state_init_cuda": 6}
    assert told["sizes"] == ["workspace_bytes_cuda", "state_bytes_cuda"]
    assert told["images"] == ["ptx", "sm_80"]
    kernel = told["kernels"]["step"]
    assert kernel == {
        "symbol": "net_step",
        "threads": 256,
        "shared": 1024,
        "points": "max(20*N - 10, 31)",
        "per_block": 10,
    }


def test_weights_of_a_file_are_filled_in_by_the_assembler() -> None:
    made = of_case(LSTM)
    library = made.library
    target: Any = HostOnly(host=_host())
    metadata = {"features": target.host.extensions}
    text = write_host(library, target, device_of(library), metadata, [ChipImage("ptx", b"\0")])
    weights = library.name, library.weights_block()
    assert objects.optimise(text, target.host, False, weights).object_code[:4] == b"\x7fELF"


def _host() -> Any:
    from rnncc.codegen.cpu.resolve import resolve_target

    return resolve_target(None, None)
