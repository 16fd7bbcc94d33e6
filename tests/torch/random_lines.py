"""Random cells of a few lines, as `scan`, `compile` and the back end have them, beside a loop:

    python -m tests.torch.random_lines --minutes 10

Prints how many cells are equal, refused and neither; what differs is printed with its source. Ends
with 1 if there was one.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rnncc_runtime.errors import ArrayError

from rnncc import CompileError
from tests.torch.cells import F, loop, nn, torch, with_gradients
from tests.torch.lines import ONE, STATEMENTS, TWO

WIDTH = 6
MOST_LINES = 9
TOLERANCE = 1e-4
"""Of the largest number of each tensor, or of 1; or as near to float64 as PyTorch is, to a factor
of `NEAR`."""
NEAR = 5
WAYS = ("scan", "scan", "compile", "open", "within", "open within", "back end")
EXAMPLE = 4
"""Sequences that a module with open sizes is exported for; called it is with fewer."""
DRAWS: dict[str, Callable[..., Any]] = {
    "normal": torch.randn,
    "zeros": torch.zeros,
    "whole": lambda *shape: torch.randn(shape).round(),
}
"""At zeros, and where elements are equal, functions may have no slope."""
AT_WILL = ("topk", "kthvalue", "median", "sort", "max_pool", "qr(", "hypot")
"""Which of equal numbers their gradient goes to is not said, or they have none (docs/torch.md)."""
KINDS = [(5, ONE), (3, TWO), (2, STATEMENTS)]
"""How often lines of a kind are drawn."""


class Parameters(nn.Module):
    """What lines read as `p`."""

    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.4)
        self.B = nn.Parameter(torch.randn(WIDTH, WIDTH, WIDTH) * 0.1)
        self.K = nn.Parameter(torch.randn(2, 1, 3) * 0.4)
        self.b, self.g = (nn.Parameter(torch.randn(WIDTH) * 0.4) for _ in "bg")
        self.s = nn.Parameter(torch.tensor([0.3]))
        self.lin = nn.Linear(WIDTH, WIDTH)
        self.lin2 = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, WIDTH))
        self.ln, self.emb = nn.LayerNorm(WIDTH), nn.Embedding(WIDTH, WIDTH)
        self.gru, self.cell = (nn.GRUCell(WIDTH, WIDTH) for _ in range(2))
        self.mha = nn.MultiheadAttention(3, 1, batch_first=True)
        self.register_buffer("edges", torch.tensor([-1.0, -0.3, 0.2, 0.9]))


class Cell(nn.Module):
    """A step of random lines: (x, (h, c)) to (y, (h, c))."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.p, self.source = Parameters(), source
        names: dict[str, Any] = {"torch": torch, "F": F, "__name__": __name__}
        exec(source, names)
        self.step = names["step"]

    def forward(self, x: Any, state: Any) -> Any:
        return self.step(self.p, x, *state)


class Loop(nn.Module):
    """A module that takes the steps in a loop of Python's, of sequences that lie one by one."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, xs: Any, state: Any) -> Any:
        return loop(self.cell, xs.transpose(0, 1), state)


class Within(Loop):
    """A module that calls `scan`."""

    def forward(self, xs: Any, state: Any) -> Any:
        import rnncc.torch

        return rnncc.torch.scan(self.cell, xs.transpose(0, 1), state)


@dataclass(frozen=True)
class Drawn:
    """A step's source, how it is called, how many steps of how many sequences, and what rows and
    both states are."""

    source: str
    way: str
    steps: int
    batch: int
    draws: Sequence[str]


def drawn(seed: int) -> Drawn:
    """A function of some lines, each of which may read what stands before it."""
    rng, lines, values = random.Random(seed), list[str](), ["x", "h", "c"]
    for number in range(rng.randint(2, MOST_LINES)):
        weights, kinds = zip(*KINDS, strict=True)
        [kind] = rng.choices(kinds, weights)
        line, recent = rng.choice(kind.strip().split("\n")), rng.choice(values[-4:])
        lines.append(f"a, b = {recent}, {rng.choice(values)}")
        lines.append(line if kind is STATEMENTS else f"y = {line}")
        lines.append(f"t{number} = y")
        values.append(f"t{number}")
    y, h, c = (rng.choice(values[3:]) for _ in range(3))
    lines.append(f"return {y}, (torch.tanh({h}), 0.5 * torch.sin({c}))")
    source = "\n    ".join(["def step(p, x, h, c):", *lines])
    way, steps, batch = rng.choice(WAYS), rng.randint(1, 6), rng.randint(1, 3)
    draws = rng.choices([*DRAWS], [4, 1, 1], k=3)
    at_will = any(word in source for word in AT_WILL)
    return Drawn(source, way, steps, batch, ["normal"] * 3 if at_will else draws)


class NotTheirsError(Exception):
    """PyTorch itself does not run a cell."""


class FixedSizesError(Exception):
    """PyTorch itself exports a cell for one size only."""


def check(seed: int) -> str | None:
    """What is wrong with a cell; None where it is equal.

    Raises:
        CompileError: it is refused.
        FixedSizesError: it is refused at other sizes than the example's, as PyTorch does.
        NotTheirsError: PyTorch does not run it.
    """
    one = drawn(seed)
    torch.manual_seed(seed)
    cell = Cell(one.source)
    shapes = [(one.batch, *n, WIDTH) for n in ((one.steps,), (), ())]
    arrays = [DRAWS[d](*s).requires_grad_() for d, s in zip(one.draws, shapes, strict=True)]
    try:
        theirs = _results(Loop(cell), cell, arrays)
    except Exception as error:
        raise NotTheirsError(str(error)) from error
    exact = _exact(cell, arrays) or theirs
    try:
        ours = _results(_compiled(one.way, cell, arrays), cell, arrays)
    except ArrayError as error:
        if "open" in one.way and _are_fixed(cell, arrays):
            raise FixedSizesError(str(error)) from error
        raise
    for number, (mine, other, near) in enumerate(zip(ours, theirs, exact, strict=True)):
        told = _difference(mine, other, near.double())
        if told is not None:
            where = f"seed {seed}, {one.way}, T = {one.steps}, N = {one.batch}, {one.draws}"
            return f"{where}: tensor {number}: {told}\n{one.source}"
    return None


def _compiled(way: str, cell: Cell, arrays: Sequence[Any]) -> Callable[..., Any]:
    import rnncc.torch

    if way == "scan":
        return lambda xs, state: rnncc.torch.scan(cell, xs.transpose(0, 1), state)
    module = (Within if "within" in way else Loop)(cell)
    if way in ("compile", "within"):
        xs, *state = (array.detach() for array in arrays)
        return rnncc.torch.compile(module, (xs, tuple(state)))
    if way in ("open", "open within"):
        given, free = _with_open_sizes(arrays)
        return rnncc.torch.compile(module, given, dynamic_shapes=free)
    torch._dynamo.reset()
    return torch.compile(module, backend="rnncc")


def _with_open_sizes(arrays: Sequence[Any]) -> tuple[Any, Any]:
    """What a module is exported with: other tensors, and that their first axes are open."""
    xs, *state = (torch.randn(EXAMPLE, *array.shape[1:]) for array in arrays)
    free = {0: torch.export.Dim.AUTO}
    return (xs, tuple(state)), (free, (free, free))


def _are_fixed(cell: Cell, arrays: Sequence[Any]) -> bool:
    """Whether PyTorch's own export of the loop fixes an open size, as `torch.gradient` makes it."""
    from torch.fx.experimental.symbolic_shapes import is_concrete_int

    given, free = _with_open_sizes(arrays)
    exported = torch.export.export(Loop(cell), given, dynamic_shapes=free)
    names = exported.graph_signature.user_inputs
    nodes = [node for node in exported.graph.nodes if node.name in names]
    return any(is_concrete_int(node.meta["val"].shape[0]) for node in nodes)


def _results(run: Callable[..., Any], cell: Any, arrays: Sequence[Any]) -> list[Any]:
    """Outputs and last states, and gradients of all that is given and of parameters."""
    xs, *state = arrays
    return with_gradients(run(xs, tuple(state)), [*arrays, *cell.parameters()])


def _exact(cell: Cell, arrays: Sequence[Any]) -> list[Any] | None:
    """The same in float64, where lines take that."""
    double = Cell(cell.source).double()
    double.load_state_dict(cell.state_dict())
    try:
        wide = [array.detach().double().requires_grad_() for array in arrays]
        return _results(Loop(double), double, wide)
    except RuntimeError:
        return None


def _difference(ours: Any, theirs: Any, exact: Any) -> str | None:
    if ours.shape != theirs.shape:
        return f"shape {tuple(ours.shape)}, expected {tuple(theirs.shape)}"
    if not torch.equal(ours.isnan(), theirs.isnan()):
        return "other elements are NaN"
    scale = max(1.0, float(exact.abs().nan_to_num().max())) if exact.numel() else 1.0
    one, other = (
        float((x.double() - exact).abs().nan_to_num().max()) / scale if x.numel() else 0.0
        for x in (ours, theirs)
    )
    return f"off by {one}, PyTorch by {other}" if one > max(TOLERANCE, NEAR * other) else None


def tried(seed: int, check: Callable[[int], str | None] = check) -> tuple[str, str]:
    """What became of a cell, and what there is to say of it."""
    try:
        told = check(seed)
    except CompileError as error:
        if isinstance(error.__cause__, torch._dynamo.exc.InternalTorchDynamoError):
            return "failed", f"seed {seed}: {error}"  # such as a function that calls itself
        return "refused", error.what
    except FixedSizesError as error:
        return "sizes refused", str(error)
    except NotTheirsError as error:
        return "not PyTorch's", str(error)
    except Exception:
        return "failed", f"seed {seed}\n{traceback.format_exc()}"
    return ("equal", "") if told is None else ("wrong", told)


def main(description: str | None = __doc__, tried: Callable[[int], Any] = tried) -> int:
    """Run the command, of cells that are tried by their seeds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    end, counts, reasons = time.monotonic() + 60 * options.minutes, Counter[str](), Counter[str]()
    seed = options.seed
    while time.monotonic() < end:
        outcome, told = tried(seed)
        counts[outcome] += 1
        if "refused" in outcome:
            reasons[told] += 1
        elif told and outcome != "not PyTorch's":
            print(told, flush=True)
        seed += 1
    for reason, count in reasons.most_common():
        print(f"{count:5} refused: {reason}")
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    return int(counts["wrong"] + counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
