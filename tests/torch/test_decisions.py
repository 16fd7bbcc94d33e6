"""What modules decide by open sizes, of which their graphs show one way alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rnncc_runtime.errors import ArrayError

import rnncc
from rnncc import CompileError
from tests.torch.cells import torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
AUTO, MOST = torch.export.Dim.AUTO, 13
EXAMPLE = 6


class Net(torch.nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def scaled(decide: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: x.cumsum(0) * (2 if decide(x) else 1)


def parts_of(cut: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: torch.cat([part.sum(0, keepdim=True) for part in cut(x)])


DECISIONS: dict[str, tuple[Callable[[Any], Any], Iterable[int]]] = {
    "above one": (scaled(lambda x: x.shape[0] > 1), range(2, MOST)),
    "above four": (scaled(lambda x: x.shape[0] > 4), range(5, MOST)),
    "no more": (scaled(lambda x: x.size(0) <= 8), range(9)),
    "is one": (scaled(lambda x: x.shape[0] == 1), {0, *range(2, MOST)}),
    "any is one": (scaled(lambda x: any(n == 1 for n in x.shape)), {0, *range(2, MOST)}),
    "is none": (lambda x: x.sum(0) + (1 if x.shape[0] == 0 else 2), range(1, MOST)),
    "not": (lambda x: x.sum(0) + (2 if x.shape[0] else 1), range(1, MOST)),
    "one of": (scaled(lambda x: x.shape[0] in (1, 3)), {0, 2, *range(4, MOST)}),
    "even": (scaled(lambda x: x.shape[0] % 2 == 0), range(0, MOST, 2)),
    "half": (scaled(lambda x: x.shape[0] // 2 > 3), range(8)),
    "between": (scaled(lambda x: 2 < x.shape[0] < 9), range(3, 9)),
    "outside": (scaled(lambda x: (x.shape[0] < 2) | (x.shape[0] > 9)), range(2, 10)),
    "near": (scaled(lambda x: abs(x.shape[0] - 5) < 2), range(4, 7)),
    "elements": (scaled(lambda x: x.numel() > 20), range(7)),
    "shape": (scaled(lambda x: x.shape == (1, 3)), {0, *range(2, MOST)}),
    "least": (lambda x: x * min(x.shape[0], 4), range(MOST)),
    "sorted": (lambda x: x * sorted([x.shape[0], 4])[0], range(5, MOST)),
    "number": (lambda x: x * (1 + int(x.shape[0] > 3)), range(4, MOST)),
    "checked": (lambda x: (torch._check(x.shape[0] > 3), x * 2)[1], range(4, MOST)),
    "asked in vain": (lambda x: (x.shape[0] > 3, x * 2)[1], range(MOST)),
    "times": (lambda x: sum(x[k] for k in range(x.shape[0] // 2)), (6, 7)),
    "chunk": (parts_of(lambda x: x.chunk(3)), {3, *range(5, MOST)}),
    "tensor_split": (parts_of(lambda x: x.tensor_split(3)), range(0, MOST, 3)),
    "end": (lambda x: x[4:], range(4, MOST)),
    "flat": (lambda x: x.view(-1), range(MOST)),
}
"""A function of [T, 3], and T for which what is compiled at 6 is right."""


@pytest.mark.parametrize("function, right", DECISIONS.values(), ids=DECISIONS)
def test_sizes_decided_otherwise_are_refused(
    function: Callable[[Any], Any], right: Iterable[int]
) -> None:
    compiled = rt.compile(Net(function), (torch.zeros(EXAMPLE, 3),), dynamic_shapes=({0: AUTO},))
    for steps in range(MOST):
        x = torch.randn(steps, 3)
        if steps in right:
            torch.testing.assert_close(compiled(x), function(x))
        else:
            with pytest.raises(ArrayError, match=r"= -|be -"):
                compiled(x)


class Scripted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 1 else x * 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_decisions_of_torchscript() -> None:
    scripted, free = torch.jit.script(Scripted()), ({0: AUTO},)
    program = rt.export(scripted, (torch.zeros(EXAMPLE, 3),), dynamic_shapes=free)
    model = rnncc.compile(program)
    np.testing.assert_array_equal(model.run({"x": np.ones((2, 3), np.float32)})["y"], 2)
    with pytest.raises(ArrayError, match="be -"):
        model.run({"x": np.ones((1, 3), np.float32)})


def looped(step: Callable[[Any], Any], x: Any) -> Any:
    return rt.scan(lambda row, h: (step(row) + h, h + 1), x, torch.zeros(()))[0]


def repeated(step: Callable[[Any], Any], x: Any) -> Any:
    from torch._higher_order_ops import while_loop

    steps, count = torch.tensor(0), 2
    return while_loop(lambda k, x: k < count, lambda k, x: (k + 1, step(x)), (steps, x))[1]


WITHIN: dict[str, Callable[..., Any]] = {
    "scan": looped,
    "while": repeated,
    "cond": lambda step, x: torch.cond(x.sum() > 0, step, lambda x: -step(x), (x,)),
    "vmap": lambda step, x: torch.func.vmap(step)(x),
}


@pytest.mark.parametrize("within", WITHIN.values(), ids=WITHIN)
@pytest.mark.parametrize("more", [0, 1, 3])
def test_decisions_within_what_torchdynamo_reads(within: Callable[..., Any], more: int) -> None:
    def step(x: Any) -> Any:
        return x * 2 if more and x.shape[-1] > more else x * 3

    net, free = Net(lambda x: within(step, x)), {0: AUTO, 1: AUTO}
    compiled = rt.compile(net, (torch.ones(5, 4),), dynamic_shapes=(free,))
    for size in range(1, 6):
        x = torch.randn(5, size)
        if size > more:
            torch.testing.assert_close(compiled(x), net(x))
        else:
            with pytest.raises(ArrayError, match="be -"):
                compiled(x)


@pytest.mark.parametrize("low, high", [(3, 9), (0, 4), (5, None)])
def test_a_range_of_sizes_is_kept(low: int, high: int | None, tmp_path: Path) -> None:
    """Also in a file, and in PyTorch's own programs; that of a guard in PyTorch's own."""
    steps = torch.export.Dim("T", min=low, max=high)
    example, file = torch.zeros(low + 2, 3), tmp_path / "net.pt2"
    for export in (rt.export, torch.export.export):
        program = export(
            Net(scaled(lambda x: x.shape[0] >= 0)), (example,), dynamic_shapes=({0: steps},)
        )
        torch.export.save(program, file)
        model = rnncc.compile(file, shapes={"x": ("T", 3)})
        for length in range(MOST):
            x = np.ones((length, 3), np.float32)
            if low <= length <= (high or MOST):
                np.testing.assert_array_equal(model.run({"x": x})["y"], 2 * x.cumsum(0))
            else:
                with pytest.raises(ArrayError, match="a size"):
                    model.run({"x": x})


def test_keys_that_placeholders_share_a_name_for() -> None:
    class Keyed(torch.nn.Module):
        def forward(self, xs: Any) -> Any:
            return sum(x.sum() * (2 if x.shape[0] > 4 else 1) for x in xs.values())

    xs = {"B": torch.ones(3), "b": torch.ones(8), "a_b": torch.ones(9)}
    model = rt.compile(Keyed(), (xs,), dynamic_shapes=({name: {0: AUTO} for name in xs},))
    sizes = {"B": 4, "b": 5, "a_b": 6}
    assert model({name: torch.ones(size) for name, size in sizes.items()}) == 4 + 2 * 5 + 2 * 6
    for wrong in ({"B": 5}, {"b": 4}, {"a_b": 4}):
        with pytest.raises(ArrayError):
            model({name: torch.ones(size) for name, size in {**sizes, **wrong}.items()})


@pytest.mark.parametrize("strict", [False, True])
def test_guards_of_programs_that_pytorch_exports(strict: bool) -> None:
    class Nested(torch.nn.Module):
        def forward(self, a: Any, *others: Any, b: Any) -> Any:
            tensors = (a["k"][0], others[1], b)
            return sum(x.sum() * (2 if x.shape[0] % 3 == 0 else 1) for x in tensors)

    def tensors(*sizes: int) -> tuple[Any, dict[str, Any]]:
        own = [torch.ones(size) for size in sizes]
        return ({"k": own[:1]}, *own[1:3]), {"b": own[3]}

    free = {"a": {"k": [{0: AUTO}]}, "others": ({0: AUTO}, {0: AUTO}), "b": {0: AUTO}}
    net = Nested()
    program = torch.export.export(net, *tensors(3, 4, 5, 6), dynamic_shapes=free, strict=strict)
    model = rnncc.compile(program)
    names = list(model.inputs)
    for sizes, fits in {(6, 8, 7, 9): True, (5, 4, 5, 6): False, (3, 4, 5, 7): False}.items():
        given = dict(zip(names, (np.ones(size, np.float32) for size in sizes), strict=True))
        if fits:
            args, kwargs = tensors(*sizes)
            np.testing.assert_array_equal(model.run(given)["y"], net(*args, **kwargs).numpy())
        else:
            with pytest.raises(ArrayError, match="a size"):
                model.run(given)


@pytest.mark.parametrize(
    "decide, guard",
    [
        (lambda x: x.shape[0] / 4 > 1, "(x.size()[0] / 4) > 1.0"),
        (lambda x: x.shape[0] & 1, "(x.size()[0] & 1) == 0"),
    ],
)
def test_a_decision_of_which_there_is_no_formula(decide: Callable[[Any], Any], guard: str) -> None:
    what = re.escape(f"what the module does depends on {guard}: there is no formula for it")
    with pytest.raises(CompileError, match=what):
        rt.compile(Net(scaled(decide)), (torch.zeros(6, 3),), dynamic_shapes=({0: AUTO},))
