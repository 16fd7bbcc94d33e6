"""Modules of TorchScript, written in Python again."""

from __future__ import annotations

import io
import linecache
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import CLOSE, loop, nn, torch
from tests.torch.lines import ONE, STATEMENTS, TWO

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

from tests.torch import scripts  # noqa: E402 (it needs PyTorch)

Make = Callable[[], Any]
T, N, WIDTH, UNITS = 7, 2, 4, 5


def x() -> Any:
    return torch.linspace(-1, 1.4, T * N * WIDTH).reshape(WIDTH, T, N).permute(1, 2, 0).contiguous()


def zeros() -> Any:
    return torch.zeros(N, UNITS), torch.full((N, UNITS), 0.1)


def loaded(module: Any) -> Any:
    """What a file gives of a module."""
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file)


SCRIPTED: dict[str, tuple[Make, Callable[[], tuple[Any, ...]]]] = {
    "cell": (lambda: scripts.Cell(WIDTH, UNITS), lambda: (x()[0], zeros())),
    "layer": (lambda: scripts.Layer(WIDTH, UNITS), lambda: (x(), zeros())),
    "backwards": (lambda: scripts.Layer(WIDTH, UNITS, True), lambda: (x(), zeros())),
    "both": (lambda: scripts.Both(WIDTH, UNITS), lambda: (x(), [zeros(), zeros()])),
    "decoder": (lambda: script(scripts.Decoder(WIDTH, UNITS)), lambda: (x(),)),
    "given": (lambda: script(scripts.Decoder(WIDTH, UNITS)), lambda: (x(), zeros()[1])),
    "whole": (lambda: script(scripts.Whole(WIDTH, UNITS)), lambda: (x(),)),
    "evaluated": (lambda: script(scripts.Whole(WIDTH, UNITS).eval()), lambda: (x(),)),
    "frozen": (lambda: torch.jit.freeze(script(scripts.Whole(4, 5).eval())), lambda: (x(),)),
    "traced": (lambda: torch.jit.trace(scripts.Whole(4, 5).eval(), x()), lambda: (x()[:, :1],)),
    "loaded": (lambda: loaded(script(scripts.Decoder(WIDTH, UNITS))), lambda: (x(),)),
    "loaded layers": (lambda: loaded(script(scripts.Whole(WIDTH, UNITS))), lambda: (x(),)),
    "numbers": (lambda: script(scripts.Numbers()), lambda: (x(),)),
    "shadowing": (lambda: script(scripts.Shadowing()), lambda: (x(),)),
    "leaves": (lambda: script(scripts.Leaves(WIDTH, UNITS)), lambda: (x(),)),
    "leaves early": (lambda: script(scripts.Leaves(WIDTH, UNITS)), lambda: (x(), 3)),
    "changed": (lambda: script(scripts.Changed()), lambda: (x(),)),
}


def script(module: Any) -> Any:
    return torch.jit.script(module)


def check(got: Any, want: Any) -> None:
    """The same nest, near enough."""
    pairs = zip(*map(torch.utils._pytree.tree_leaves, (got, want)), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("name", SCRIPTED)
def test_modules(name: str) -> None:
    """In Python, and compiled: results and the gradients of the same parameters."""
    torch.manual_seed(0)
    make, arguments = SCRIPTED[name]
    module = make()
    plain = rt.unscripted(module)
    assert not any(isinstance(part, torch.jit.ScriptModule) for part in plain.modules())
    compiled = rt.compile(plain, arguments())
    want, *others = [
        outcome(*way, arguments()) for way in ((module, module), (plain, plain), (compiled, plain))
    ]
    for found in others:
        check(found, want)


def outcome(run: Any, module: Any, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """What a run gives, and the gradients of a module's parameters."""
    results = run(*arguments)
    places = [p for p in module.parameters() if p.requires_grad]
    grads = torch.autograd.grad(loss(results), places, allow_unused=True) if places else ()
    return results, grads


def loss(results: Any) -> Any:
    return sum(y.square().sum() for y in torch.utils._pytree.tree_leaves(results))


def test_parameters_and_modes_are_kept() -> None:
    module = script(scripts.Whole(WIDTH, UNITS))
    module.norm.eval()
    plain = rt.unscripted(module)
    assert all(a is b for a, b in zip(plain.parameters(), module.parameters(), strict=True))
    assert list(plain.state_dict()) == list(module.state_dict())
    assert plain.training and not plain.norm.training
    plain.eval()
    check(plain(x()), module.eval()(x()))


def test_methods_and_defaults() -> None:
    plain = rt.unscripted(script(scripts.Leaves(WIDTH, UNITS)))
    check(plain.start(x()), torch.full((N, UNITS), 0.1))
    short = plain(x(), most=2)
    assert type(short).__name__ == "Named" and short.every.shape == (2, N, UNITS)


def test_packed_sequences_stay_in_python() -> None:
    """They are what they were, but TorchScript has checked shapes that the compiler has not."""
    module, given = script(scripts.Packed(WIDTH, UNITS)), (x(), torch.tensor([7, 3]))
    plain = rt.unscripted(module)
    check(plain(*given), module(*given))
    with pytest.raises(CompileError):
        rt.compile(plain, given)


def test_a_cell_within_a_module() -> None:
    """`scan` tells what to do; then its gradients are those of the parts of TorchScript."""
    holder = scripts.Holder(WIDTH, UNITS)
    for cell in (holder, holder.cell, lambda a, b: holder(a, b)):
        with pytest.raises(CompileError, match=r"TorchScript.* \(rnncc.torch.unscripted"):
            rt.scan(cell, x(), zeros())
    with pytest.raises(CompileError, match=r"^Holder.cell: a module of TorchScript"):
        rt.compile(holder, (x()[0], zeros()))
    plain = rt.unscripted(holder)
    assert plain is not holder and isinstance(holder.cell, torch.jit.ScriptModule)
    grads = [
        torch.autograd.grad(loss(run(x(), zeros())), list(holder.parameters()))
        for run in (lambda *given: rt.scan(plain, *given), lambda *given: loop(holder, *given))
    ]
    check(*grads)
    own = nn.Linear(2, 2)
    assert rt.unscripted(own) is own


def test_build_takes_what_was_loaded(tmp_path: Path) -> None:
    module = loaded(script(scripts.Whole(WIDTH, UNITS).eval()))
    sizes = {"x": {1: torch.export.Dim("N")}}
    made = rt.build(module, (x(),), dynamic_shapes=sizes, out=tmp_path, products=["o"])
    assert made.object.exists()


def test_what_has_no_python_code_is_refused_at_its_line() -> None:
    with pytest.raises(CompileError, match=r"prim::CreateObject .*not supported") as error:
        rt.unscripted(script(scripts.Guarded()))
    file, line = str(error.value).split(":")[:2]
    assert "torch.no_grad()" in linecache.getline(file, int(line))


LINES = [f"return {line}" for line in (ONE + TWO).strip().splitlines()]
LINES += [f"a = a * 1.0; {line}; return y" for line in STATEMENTS.strip().splitlines()]


@pytest.mark.parametrize("part", range(16))
def test_lines(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What TorchScript takes of the lines of random cells, scripted and traced."""
    monkeypatch.syspath_prepend(tmp_path)
    chosen = LINES[part::16]
    text = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
    text += "from tests.torch.random_lines import Parameters\n"
    for number, line in enumerate(chosen):
        own = re.sub(r"\bp\.", "self.p.", line)
        text += f"class M{number}(nn.Module):\n    def __init__(self):\n"
        text += "        super().__init__()\n        self.p = Parameters()\n"
        text += f"    def forward(self, a, b):\n        {own}\n"
    made = ModuleType(f"lines_{part}")
    file = tmp_path / "lines.py"
    file.write_text(text)
    exec(compile(text, str(file), "exec"), made.__dict__)
    checked = sum(check_line(getattr(made, f"M{i}")()) for i in range(len(chosen)))
    assert checked > 1.7 * len(chosen)  # TorchScript does not take all of them


def check_line(module: Any) -> int:
    """How many of two forms TorchScript has of a module; both must be equal to it."""
    torch.manual_seed(1)
    given = torch.randn(5, 6), torch.randn(5, 6)
    done = 0
    for make in (torch.jit.script, lambda m: torch.jit.trace(m, given)):
        try:
            module_ = make(module)
            torch.manual_seed(0)
            want = module_(*given)
        except Exception:
            continue
        torch.manual_seed(0)
        check(rt.unscripted(module_)(*given), want)
        done += 1
    return done


def test_pytorch_still_scripts_recurrent_layers() -> None:
    """What was put into PyTorch does not hide its own operators from `torch.jit.script`."""
    rt.compile(nn.GRU(WIDTH, UNITS), (x(),))
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        layer = nn.Sequential(kind(WIDTH, UNITS))
        check(script(layer)(x()), layer(x()))


def test_compile_asks_for_python() -> None:
    with pytest.raises(CompileError, match=r"unscripted\(module\) is the same in Python"):
        rt.compile(torch.jit.script(nn.Linear(3, 2)), (torch.zeros(1, 3),))


def test_damaged_notes_of_lines() -> None:
    """What a file says of the lines that it was made of is for messages alone."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(3, 2)), file)
    damaged = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(damaged, "w") as new:
        for entry in old.infolist():
            notes = entry.filename.endswith(".debug_pkl")
            new.writestr(entry.filename, b"\x80\x02pppp" if notes else old.read(entry))
    damaged.seek(0)
    module, ones = torch.jit.load(damaged), torch.ones(1, 3)
    assert torch.equal(rt.unscripted(module)(ones), module(ones))
