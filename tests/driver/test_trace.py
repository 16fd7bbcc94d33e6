"""What the options ask of every step: times, dumps, an early stop."""

from __future__ import annotations

import errno
import gc
import os
import platform
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llvmlite import binding

import rnncc
from rnncc import cells, pipeline
from rnncc.cli import main
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.llvm import objects
from rnncc.driver import compiling
from rnncc.errors import CompileError
from rnncc.options import Options
from rnncc.stages.compilation import Compilation, Step

ROOT = Path(__file__).parents[2]
NET, INIT = (str(ROOT / "examples" / name) for name in ("lstm.pbtxt", "lstm_init.pbtxt"))
CODE = [step.name for step in (*pipeline.LOWERING, *pipeline.CODE)]


def net_steps(train: bool) -> list[str]:
    return [step.name for step in pipeline.net_steps(Options(train=train))]


@pytest.mark.parametrize("train", [[], ["--train"]])
def test_time_passes(train: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compile", NET, "--init", INIT, "-o", str(tmp_path), "--time-passes", *train]
    assert main(arguments) == 0
    lines = [line.rsplit(maxsplit=2) for line in capsys.readouterr().err.splitlines()]
    names = [name.strip() for name, _, _ in lines]
    steps = [*net_steps(bool(train)), *CODE]
    assert names == ["start", "imports", *steps, "write", "total"]
    times = [float(milliseconds) for _, milliseconds, _ in lines]
    assert sum(times[:-1]) <= times[-1] * 1.01


@pytest.mark.parametrize("train", [False, True])
def test_dumps_tell_one_story(train: bool, tmp_path: Path) -> None:
    """A file a step, numbered through; --emit shows what two of them hold."""
    net = cells.lstm(3, 4)
    compiling.build_library(net, None, Options(dump_ir=tmp_path, train=train))
    names = [*net_steps(train), *CODE[:-4]]
    expected = [f"{number:02}-{name}.mlir" for number, name in enumerate(names, 1)]
    assert sorted(path.name for path in tmp_path.iterdir()) == expected
    for kind, last in (("rnn", net_steps(train)[-1]), ("kern", "assemble")):
        (path,) = tmp_path.glob(f"*-{last}.mlir")
        assert compiling.emit(net, None, Options(train=train), kind).content == path.read_text()


def test_dumps_of_code(tmp_path: Path) -> None:
    compiling.compile_object(cells.elman(3, 4), None, Options(dump_ir=tmp_path))
    dumped = sorted(path.name for path in tmp_path.glob("*.ll"))
    assert [re.sub(r"[0-9]+-", "", name) for name in dumped] == [
        "write-code.ll",
        "optimise.ll",
        "machine-code.ll",
    ]
    assert "define" in next(tmp_path.glob("*-optimise.ll")).read_text()


@pytest.mark.parametrize("train", [False, True])
def test_stop_after_every_step(train: bool, tmp_path: Path) -> None:
    """What --stop-after leaves is what is dumped there, and what compiling goes on from."""
    net = cells.lstm(3, 4)
    for name in net_steps(train):
        options = Options(train=train, stop_after=name)
        content = compiling.emit(net, None, options, "rnn").content
        assert isinstance(content, str)
        assert f'after = "{name}"' in content
    for name in CODE[:-4]:
        options = Options(train=train, stop_after=name)
        content = compiling.emit(net, None, options, "kern").content
        assert isinstance(content, str)
        assert f'after = "{name}"' in content and "kern.func" in content


@pytest.mark.parametrize(
    ("kind", "step", "what"),
    [
        ("kern", "hoist", "hoist leaves no kernels"),
        ("rnn", "plan", "no step is named plan"),
        ("rnn", "frob", "no step is named frob"),
    ],
)
def test_steps_that_do_not_leave_a_form(kind: str, step: str, what: str) -> None:
    with pytest.raises(CompileError, match=what):
        compiling.emit(cells.elman(2, 2), None, Options(stop_after=step), kind)


def test_every_step_says_why_and_has_its_own_name() -> None:
    for train in (False, True):
        steps = [*pipeline.net_steps(Options(train=train)), *pipeline.LOWERING, *pipeline.CODE]
        assert len({step.name for step in steps}) == len(steps)
        assert all(step.why for step in steps)


def test_a_library_call_leaves_the_process_as_it_was() -> None:
    """What --help promises of the command is not for others: thresholds of garbage collection."""
    seen = list[tuple[int, int, int]]()
    whole_process, before = gc.get_threshold(), (700, 10, 10)
    gc.set_threshold(*before)
    gc.callbacks.append(lambda *_: seen.append(gc.get_threshold()))
    try:
        rnncc.compile(cells.elman(2, 2))
    finally:
        gc.callbacks.pop()
        gc.set_threshold(*whole_process)
    assert seen and set(seen) == {before}


def test_options_of_llvm_are_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the process's: numba reads them, too."""
    llvm: Any = binding  # its stubs lack this function
    values, set_option = list[str](), llvm.set_option

    def noted(name: str, option: str) -> None:
        values.append(option)
        set_option(name, option)

    monkeypatch.setattr(llvm, "set_option", noted)
    monkeypatch.setenv("RNNCC_CACHE", "0")
    rnncc.compile(cells.elman(2, 2))
    assert values or platform.machine() != "x86_64"
    assert values[1::2] == [option.replace("=true", "=false") for option in values[::2]]


def test_the_table_of_contents_is_light() -> None:
    """Neither PyTorch nor ONNX is imported for a net that needs neither."""
    code = "import sys, rnncc.driver; print({'torch', 'onnx', 'numba'} & sys.modules.keys())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "set()\n"


def test_a_whole_model_does_not_stop_after_a_step() -> None:
    options: dict[str, Any] = {"stop_after": "hoist"}
    for make in (rnncc.compile, rnncc.plan):
        with pytest.raises(CompileError, match="goes with --emit rnn or --emit kern"):
            make(cells.elman(2, 2), **options)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        ImportError("libllvmlite.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        ValueError("array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum"),
    ],
)
def test_no_memory_is_no_fault_of_a_step(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def importing(c: Compilation) -> None:
        raise OSError("could not load what runs LLVM") from error  # as llvmlite says it

    monkeypatch.setattr(pipeline, "LOWERING", [Step("imports", importing, "a test")])
    assert main(["compile", NET, "--init", INIT, "--emit", "kern", "-o", "-"]) == 1
    assert capsys.readouterr().err == "rnncc: error: out of memory\n"


def test_no_memory_for_llvm() -> None:
    """LLVM itself would end the process."""
    target = resolve_target()
    text = "define void @f() {\n  ret void\n}\n"
    assert objects.optimise(text, target).object_code
    in_use = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (48 << 20), before[1]))
    try:
        with pytest.raises(MemoryError, match="LLVM needs more memory than there is"):
            objects.optimise(text, target)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
