"""Random modules with loops over time in Python, and how they are captured.

`python -m tests.torch.loops COUNT [SEED]` compares COUNT of them with themselves rolled.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

from tests.torch.cells import nn, torch

WIDTH = 4
Step = Callable[..., Any]


class Leaky(nn.Module):
    """A spiking neuron with a soft reset, by operators alone."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.3)

    def forward(self, x: Any, h: Any) -> Any:
        h = 0.9 * h + x @ self.weight
        return torch.where(h > 0.5, h - 0.5, h)


class Gated(nn.Module):
    """A minimal gated unit."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.new = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Any, h: Any) -> Any:
        f = torch.sigmoid(self.gate(torch.cat([x, h], -1)))
        return (1 - f) * h + f * torch.tanh(self.new(torch.cat([x, f * h], -1)))


class Plain(nn.Module):
    """tanh(W x + U h), changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any, h: Any) -> Any:
        made = self.own(x)
        made += self.other(h)
        return torch.tanh(made)


class Pair(nn.Module):
    """nn.LSTMCell, whose state is a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(WIDTH, WIDTH)

    def forward(self, x: Any, h: Any) -> Any:
        return self.cell(x, h)


CELLS = (Leaky, Gated, Plain, Pair, lambda: nn.GRUCell(WIDTH, WIDTH))
READS: dict[str, Callable[[Any], list[Any]]] = {
    "index": lambda x: [x[:, t] for t in range(x.shape[1])],
    "full": lambda x: [x[:, t, :] for t in range(x.shape[1])],
    "slice": lambda x: [x[:, t : t + 1].squeeze(1) for t in range(x.shape[1])],
    "unbind": lambda x: list(x.unbind(1)),
    "split": lambda x: [part[:, 0] for part in x.split(1, 1)],
    "chunk": lambda x: [part.squeeze(1) for part in x.chunk(x.shape[1], 1)],
    "first": lambda x: list(x.transpose(0, 1)),
    "select": lambda x: [x.select(1, t) for t in range(x.size(1))],
    "narrow": lambda x: [x.narrow(1, t, 1)[:, 0] for t in range(x.size(1))],
    "windows": lambda x: [x[:, t : t + 2].sum(1) for t in range(x.size(1) - 1)],
    "pairs": lambda x: [x[:, 2 * t : 2 * t + 2].mean(1) for t in range(x.size(1) // 2)],
    "odd": lambda x: [x[:, t] for t in range(1, x.size(1), 2)],
    "from end": lambda x: [x[:, -1 - t] for t in range(x.size(1))],
    "differences": lambda x: [x[:, t] - x[:, t - 1] for t in range(1, x.size(1))],
}
ENDS = ("stack", "cat", "put", "sum", "last", "mean", "reversed", "every second", "states")
TURNS = ("no", "reversed", "list")
EXTRAS = (
    "no",
    "power",
    "time",
    "product",
    "lag",
    "feedback",
    "once",
    "late",
    "half",
    "second loop",
)


class Loop(nn.Module):
    """A module with a loop, by a random choice of how it is written."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        choose = random.Random(seed)
        self.layers = nn.ModuleList(choose.choice(CELLS)() for _ in range(choose.choice((1, 1, 2))))
        self.read = choose.choice(list(READS))
        self.end, self.iteration = choose.choice(ENDS), choose.choice(TURNS)
        self.extra = choose.choice(EXTRAS)
        self.out = nn.Linear(WIDTH, WIDTH)

    def extra_repr(self) -> str:
        """The choices."""
        return f"{self.read}, {self.iteration}, {self.extra}, {self.end}"

    def forward(self, x: Any) -> Any:
        """The loop over x of [N, T, C]."""
        rows = READS[self.read](x)
        if self.iteration != "no":
            rows = list(reversed(rows)) if self.iteration == "list" else rows[::-1]
        states = [self.first(x, layer) for layer in self.layers]
        ys: list[Any] = []
        late, total = x[:, 0], x.new_zeros(x.shape[0], WIDTH)
        kept = torch.zeros(len(rows), x.shape[0], WIDTH)
        for t, row in enumerate(rows):
            y = self.changed(row, t, len(rows), ys)
            for i, layer in enumerate(self.layers):
                states[i] = layer(y, states[i])
                y = states[i][0] if isinstance(states[i], tuple) else states[i]
            if self.extra == "lag":
                y, late = y + 0.5 * late, row
            ys.append(y)
            total = total + y
            kept[t] = y
        if self.extra == "second loop":
            h = torch.zeros_like(ys[0])
            for t in range(len(ys)):
                h = torch.tanh(self.out(h) + ys[t])
                ys[t] = h
        return self.result(ys, states, total, kept)

    def first(self, x: Any, layer: Any) -> Any:
        """A state of zeros."""
        h = torch.zeros(x.shape[0], WIDTH)
        return (h, h) if isinstance(layer, Pair) else h

    def changed(self, row: Any, t: int, steps: int, ys: list[Any]) -> Any:
        """What a step takes."""
        match self.extra:
            case "power":
                return row * 0.9 ** (steps - t)
            case "time":
                return row + t / steps
            case "feedback":
                return row + torch.sigmoid(self.out(ys[-1])) if ys else row
            case "once":
                return row * 2 if t == 2 else row
            case "late":
                return row + ys[-2] if t > 1 else row
            case "half":
                return self.out(row) if t < steps // 2 else row
            case "product":
                return t * row if t else row
            case _:
                return row

    def result(self, ys: list[Any], states: list[Any], total: Any, kept: Any) -> Any:
        """What is returned of all steps."""
        match self.end:
            case "stack":
                return self.out(torch.stack(ys, 1))
            case "cat":
                return torch.cat([y.unsqueeze(1) for y in ys], 1)
            case "put":
                return kept.transpose(0, 1)
            case "sum":
                return sum(ys), ys[2]
            case "last":
                return ys[-1]
            case "mean":
                return total / len(ys)
            case "reversed":
                return torch.stack(ys[::-1])
            case "every second":
                return torch.stack(ys[::2])
            case _:
                return states


def captured(module: Any, *given: Any) -> tuple[Any, list[Any]]:
    """The graph that TorchDynamo makes of a module, and what it takes."""
    found = list[Any]()

    def keep(graph: Any, inputs: list[Any]) -> Any:
        found.append((graph, inputs))
        return graph.forward

    torch._dynamo.reset()
    torch.compile(module, backend=keep, fullgraph=True, dynamic=False)(*given)
    graph, inputs = found[0]
    places = graph.graph.find_nodes(op="placeholder")
    return graph, [x for x, _ in zip(inputs, places, strict=True)]


def check(seed: int) -> list[int]:
    """Compare a module's graph with the same rolled; how often its loops run."""
    from rnncc.frontends.torch.unrolled.functional import without_changes
    from rnncc.frontends.torch.unrolled.rolling import roll_loops

    torch.manual_seed(seed)
    module, x = Loop(seed), torch.randn(2, 10, WIDTH)
    with torch.no_grad():
        graph, inputs = captured(module, x)
        assert without_changes(graph), module.extra_repr()
        found = roll_loops(graph, plain=False)
        want = module(x)
        made = graph(*inputs)
    flat: Any = torch.utils._pytree.tree_leaves(want)
    torch.testing.assert_close(list(made), flat)
    return found.lengths


def check_exported(seed: int) -> list[int]:
    """The same of a module that is exported."""
    torch.manual_seed(seed)
    return rolled_exported(Loop(seed), torch.randn(2, 10, WIDTH))


def rolled_exported(module: Any, x: Any) -> list[int]:
    """How often the loops of an exported module run, which computes the same when rolled."""
    import rnncc.torch
    from rnncc.frontends.torch.programs.apart import decomposed
    from rnncc.frontends.torch.unrolled.rolling import roll_loops

    plain = decomposed(rnncc.torch.export(module, (x,)))
    held = {**plain.state_dict, **plain.constants}
    given = [held.get(str(s.target), x) for s in plain.graph_signature.input_specs]
    with torch.no_grad():
        found = roll_loops(plain.graph_module, plain=True)
        made = torch.fx.Interpreter(plain.graph_module).run(*given)
        want = module(x)
    flat: Any = torch.utils._pytree.tree_leaves(want)
    torch.testing.assert_close(list(made), flat)
    return found.lengths


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for number in range(first, first + int(sys.argv[1])):
        try:
            lengths = (check_exported if number % 4 == 3 else check)(number)
            if not lengths:
                print(number, Loop(number).extra_repr(), "is not rolled", flush=True)
        except Exception as error:
            print(number, Loop(number).extra_repr(), repr(error)[:300], flush=True)
