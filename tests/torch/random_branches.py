"""Random cells that branch and loop on tensors' values, by `scan` and `compile`, beside a loop:

    python -m tests.torch.random_branches --minutes 10

Prints how many cells are equal, refused and neither; what differs is printed with its source. Ends
with 1 if there was one.
"""

from __future__ import annotations

import linecache
import random
import sys
from typing import Any

from tests.torch import random_lines
from tests.torch.cells import loop, nn, torch
from tests.torch.random_lines import NotTheirsError

WIDTH, STEPS, CALLS, MOST_DEPTH = 3, 5, 3, 2
TOLERANCE = 1e-8
VALUES = (
    *("torch.tanh({0} + {1})", "{0} * 0.5 - {1}", "torch.sigmoid({0}) * {1}", "torch.sin({0})"),
    *(
        "torch.tanh({0} @ p.W)",
        "{0}",
        "{0} * 1",
        "torch.sin({0} @ p.W.flatten(1))",
        "p.half({0})",
        "p.b + {0}",
        "{0}.abs().sqrt()",
    ),
    *("{0}.contiguous()", "p.b.view_as({0}) * {0}", "p.W.double()[0] * {0}"),
    *("{0} * p.s.clone()", "{0}[[2, 0, 1]]", "torch.cat([{0}[1:], {1}[:1]])"),
    *("torch.log({0}.abs() + 0.1)", "torch.stack([{0}, {1}]).mean(0)", "torch.maximum({0}, {1})"),
)
CHANGES = (
    *("{0} += {1}", "{0}.mul_({1})", "{0}[0] = 0.3", "{0}[1:] += {1}[1:]", "{0}[{1} < 0] *= 0.5"),
    *("{0}.copy_({1})", "{0}[1] = {1}[2]", "{0}.neg_().add_({1})"),
)
"""Statements that change a tensor in place."""
CONSTANTS = (
    "n, r, l = torch.tensor(1), torch.arange(3), [1, 2.0, 3]",
    "q = a = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)",
)
"""Values that PyTorch knows, of numbers and lists, until something of data changes them."""
TAKEN = (
    *("int(n)", "n.item()", "float(q[{1}])", "q[{1}].item()", "int(r[{1}])", "r.tolist()[{1}]"),
    *("r.sum().item()", "float((q * n).max())", "l[{1}]", "l[int(r[{1}]) % 3]", "float(a[{1}])"),
    *("q", "n", "r", "a", "q[{1}]", "r[{1}]", "torch.stack([q[{1}], q[{2}]]).sum()", "len(l)"),
)
"""Numbers and tensors that cells take out of them."""
CONSTANT_CHANGES = (
    *("n += 1", "n.add_(2)", "n = n + 1", "n = torch.tensor({1})", "n.copy_(torch.tensor({1}))"),
    *("r[{1}] += 2", "r[1:].mul_(2)", "r = r + 1", "r.fill_({1})", "r = torch.arange(3)"),
    *("q[{1}] = 0.25", "q.mul_(0.5)", "q = q * 0.5", "torch.add(q, 0.5, out=q)", "q[:2] = q[1:]"),
    *("a = q", "a = q[:]", "a = q.view(3)", "a = r.view(3)", "a = q.clone()", "a.mul_(2)"),
    *("a[{1}] = 1", "torch._foreach_add_([q], 0.5)", "torch._foreach_mul_([n, r], 2)"),
    *("q[{1}] = {0}.sum().detach()", "n.fill_(int({0}.sum() > 0))", "n.copy_({0}.sum() > 0)"),
    *("r[1:].copy_({0}[1:] > 0)", "q.copy_({0}.detach())", "l[{1}] = l[{2}] + 1", "l = [3, 1, 2]"),
    *("l.append(l.pop(0))", "l.reverse()", "r.neg_()", "n.mul_(-1)", "n.zero_()"),
)
"""Statements that change these, or give them another name."""
CONSTANT_TESTS = (
    *("n > {1}", "int(n) == {1}", "r[{1}] > 1", "q[{1}] < 0.7", "(r > 1).any()", "l[{1}] > 1"),
    *("bool(q.sum() > 3)", "n.item() % 2 == 0", "{0}.sum() > n", "a[{1}] > 0.5"),
)
TESTS = (
    *("{0}.sum() > 0", "({0} > {1}).any()", "torch.all({0} < 0.8)", "{0}.mean().item() < 0.1"),
    *("float({0}.max()) > 0.3", "bool(({0} > 0.5).any())", "-0.3 < {0}[0] < 0.6", "k > 0"),
    *("any([{0}.sum() > 0, {1}.max() > 0.5])", "all(v.sum() > 0 for v in ({0}, {1}))"),
)


class Cell(nn.Module):
    """A step of random statements: (x, (h, c)) to (y, (h, c))."""

    def __init__(self, source: str, name: str) -> None:
        super().__init__()
        self.W, self.b = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.6), nn.Parameter(torch.zeros(3))
        self.register_buffer("s", torch.zeros(WIDTH))
        self.m = torch.zeros(WIDTH, dtype=torch.float64)
        lines = [line + "\n" for line in source.split("\n")]
        linecache.cache[name] = len(source), None, lines, name
        names: dict[str, Any] = {"torch": torch, "__name__": __name__}
        exec(compile(source, name, "exec"), names)
        self.step = names["step"]

    def half(self, x: Any) -> Any:
        if x.sum() > 0:
            return x * 0.5
        return x

    def forward(self, x: Any, state: Any) -> Any:
        return self.step(self, x, *state)


class Loop(nn.Module):
    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, xs: Any, state: Any) -> Any:
        return loop(self.cell, xs, state)


class Drawn:
    """Statements over variables that are bound for certain."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.lines = rng, list[str]()
        self.has_constants = rng.random() < 0.5

    def value(self, known: list[str]) -> str:
        one = self.rng.choice(VALUES).format(self.rng.choice(known), self.rng.choice(known))
        if self.has_constants and self.rng.random() < 0.3:
            return f"{one} * 0.3 * {self.of_constants(TAKEN, known)}"
        return one

    def of_constants(self, lines: tuple[str, ...], known: list[str]) -> str:
        """One of the lines, of a name and two places."""
        places = self.rng.randrange(3), self.rng.randrange(3)
        return self.rng.choice(lines).format(self.rng.choice(known), *places)

    def test(self, known: list[str]) -> str:
        names = self.rng.choice(known), self.rng.choice(known)
        one = self.rng.choice(TESTS).format(*names)
        if self.has_constants and self.rng.random() < 0.3:
            one = self.of_constants(CONSTANT_TESTS, known)
        kind = self.rng.random()
        if kind < 0.15:
            return f"not ({one})"
        if kind < 0.35:
            return f"({one}) {self.rng.choice(('and', 'or'))} ({self.test(known)})"
        return one

    def block(self, known: list[str], indent: str, depth: int, within: str) -> list[str]:
        """Statements; returns what is bound behind them."""
        known = list(known)
        for _ in range(self.rng.randint(1, 2)):
            known = self.statement(known, indent, depth, within)
        return known

    def statement(self, known: list[str], indent: str, depth: int, within: str) -> list[str]:
        put, kind = self.lines.append, self.rng.random()
        if depth >= MOST_DEPTH or kind < 0.4:
            return self.assignment(known, indent)
        inner = indent + "    "
        if kind < 0.45:
            put(f"{indent}for k in range({self.rng.randint(1, 3)}):")
            self.block(known, inner, depth + 1, "loop")
            return known
        if kind < 0.5:
            return self.loop(known, indent, depth)
        if kind < 0.53:
            name = self.rng.choice("uvw")
            test = self.test(known)
            put(f"{indent}g = {test} and {self.test(known)}")
            put(f"{indent}{name} = {self.value(known)} if {self.rng.choice(('g', 'not g'))} else x")
            return [*known, name]
        if kind < 0.6:
            name = self.rng.choice("uvw")
            ways = self.value(known), self.value(known)
            put(f"{indent}{name} = {ways[0]} if {self.test(known)} else {ways[1]}")
            return [*known, name]
        put(f"{indent}if {self.test(known)}:")
        one = self.block(known, inner, depth + 1, "branch")
        ends = self.rng.random()
        if ends < 0.12 and within in ("loop", "endless"):
            end = self.rng.choice(("break", "continue"))
            put(f"{inner}{end if within == 'loop' else 'break'}")
            return known
        if ends < 0.2:
            put(f"{inner}return {self.value(one)}, ({self.value(one)}, {self.value(one)})")
            return known
        if self.rng.random() < 0.3:
            put(f"{indent}elif {self.test(known)}:")
            middle = self.block(known, inner, depth + 1, "branch")
            one = [name for name in one if name in middle]
        elif self.rng.random() < 0.3:
            return known
        put(f"{indent}else:")
        other = self.block(known, inner, depth + 1, "branch")
        return [name for name in one if name in other]

    def loop(self, known: list[str], indent: str, depth: int) -> list[str]:
        """One that ends by a tensor's value, and by a counter, which no `continue` may pass by."""
        put, test, inner = self.lines.append, self.test(known), indent + "    "
        count, most = f"n{depth}", self.rng.randint(1, 4)
        put(f"{indent}{count} = 0")
        kind = self.rng.choices(("tested", "at the top", "at the end"), (7, 1, 2))[0]
        put(f"{indent}while {f'{count} < {most} and ({test})' if kind == 'tested' else True}:")
        put(f"{inner}{count} += 1")
        if kind == "at the top":
            put(f"{inner}if {count} > {most} or ({test}):")
            put(f"{inner}    break")
        within = "endless" if kind == "at the end" else "loop"
        behind = self.block(known, inner, depth + 1, within)
        if kind == "at the end":
            put(f"{inner}if {count} >= {most} or {self.test(behind)}:")
            put(f"{inner}    break")
        elif kind == "tested" and self.rng.random() < 0.2:
            put(f"{indent}else:")
            self.block(known, inner, depth + 1, "branch")
        name = self.rng.choice("hc")
        put(f"{indent}{name} = ({name} + {count}) * 0.3")
        return known

    def assignment(self, known: list[str], indent: str) -> list[str]:
        put, kind, name = self.lines.append, self.rng.random(), self.rng.choice("hcuvw")
        if self.has_constants and self.rng.random() < 0.4:
            put(indent + self.of_constants(CONSTANT_CHANGES, known))
            return known
        if kind < 0.15 and name in known:
            if kind < 0.08:
                put(f"{indent}{name} = {name} * 1")
            put(indent + self.rng.choice(CHANGES).format(name, self.rng.choice(known)))
        elif 0.15 < kind < 0.17:
            view = self.rng.choice(("", "[:]", ".detach()"))
            put(f"{indent}{name} = {self.rng.choice(known)}{view}")
        elif 0.17 < kind < 0.19:
            put(f"{indent}p.s.mul_(0.5).add_({self.rng.choice(known)}.detach())")
            return known
        elif 0.19 < kind < 0.22:
            f = "torch.tanh", "torch.sin", "p.half", "(lambda x: x * 0.5)"
            ways = self.rng.choice(f), self.rng.choice(f)
            put(f"{indent}f = {ways[0]} if {self.test(known)} else {ways[1]}")
            put(f"{indent}{name} = f({self.value(known)})")
        elif 0.24 < kind < 0.27:
            put(f"{indent}p.m = {self.value(known)}")
        elif 0.24 < kind < 0.3:
            put(f"{indent}{name} = p.m + {self.rng.choice(known)}")
        elif kind < 0.37:
            put(f"{indent}u, v = {self.value(known)}, {self.value(known)}")
            return [*known, "u", "v"]
        else:
            put(f"{indent}{name} = {self.value(known)}")
        return known if name in known or 0.24 < kind < 0.27 else [*known, name]


def drawn(seed: int) -> str:
    """A step's source."""
    one = Drawn(random.Random(seed))
    known = one.block(["x", "h", "c"], "    ", 0, "function")
    known = one.block(known, "    ", 0, "function")
    state = f"(torch.tanh({one.value(known)}), torch.sin({one.value(known)}))"
    last = f"    return {one.value(known)}, {state}"
    first = ["def step(p, x, h, c):", "    k = 0", "    h, c = h * 1, c * 1"]
    if one.has_constants:
        first += ["    " + line for line in CONSTANTS]
    return "\n".join([*first, *one.lines, last, ""])


def check(seed: int) -> str | None:
    """What is wrong with a cell; None where it is equal.

    Raises:
        CompileError: it is refused.
        NotTheirsError: PyTorch does not run it.
    """
    import rnncc.torch

    source, way = drawn(seed), random.Random(-seed).choice(("scan", "compile"))
    torch.manual_seed(seed)
    ours, theirs = (Cell(source, f"<drawn {seed} {n}>").double() for n in range(2))
    theirs.load_state_dict(ours.state_dict())
    run: Any = None
    for call in range(CALLS):
        shapes = [(STEPS, WIDTH), (WIDTH,), (WIDTH,)]
        arrays = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
        xs, *state = arrays
        try:
            known = _results(Loop(theirs), xs, state, arrays, theirs)
        except RuntimeError as error:  # such as changes in place of what gradients need
            raise NotTheirsError from error
        if run is None:
            module = Loop(ours)
            run = rnncc.torch.compile(module, (xs, tuple(state))) if way == "compile" else None
        found = _results(run or _scan(ours), xs, state, arrays, ours)
        pairs = [*zip(found, known, strict=True), (ours.s, theirs.s)]
        if run is None:  # a compiled module does not keep what no call of it reads
            pairs.append((ours.m, theirs.m))
        for number, (one, other) in enumerate(pairs):
            if ".abs().sqrt()" in source:  # 0 times infinity at 0, which is 0 here (docs/torch.md)
                other = torch.where(other.isnan(), one, other)
            if not torch.allclose(one, other, TOLERANCE, TOLERANCE, equal_nan=True):
                return (
                    f"seed {seed}, {way}, call {call}: tensor {number}:\n{one}\n{other}\n{source}"
                )
    return None


def _scan(cell: Any) -> Any:
    import rnncc.torch

    return lambda xs, state: rnncc.torch.scan(cell, xs, state)


def _results(run: Any, xs: Any, state: Any, arrays: Any, cell: Any) -> list[Any]:
    cell.m = torch.zeros(WIDTH, dtype=torch.float64)
    ys, last = run(xs, tuple(state))
    out = [ys, *last]
    sums = [y.sin().sum() for y in out if y.requires_grad]
    given = [*arrays, cell.W, cell.b]
    grads = torch.autograd.grad(sums, given, allow_unused=True, materialize_grads=True)
    cell.m = cell.m.detach()
    return [*out, *grads]


def tried(seed: int) -> tuple[str, str]:
    """What became of a cell, and what there is to say of it."""
    outcome, told = random_lines.tried(seed, check)
    return outcome, f"{told}\n{drawn(seed)}" if outcome == "failed" else told


if __name__ == "__main__":
    sys.exit(random_lines.main(__doc__, tried))
