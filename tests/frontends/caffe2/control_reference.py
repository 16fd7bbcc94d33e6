"""Caffe2's way to run nets with Do, If and While: blobs by name in workspaces; and random nets."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np

from rnncc.netdef import NetDef, OperatorDef
from tests.frontends.caffe2.control_nets import BOOL, body, branch, constant, do, loop, scope
from tests.frontends.caffe2.nets import net, op

Array = np.ndarray[Any, Any]

FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Add": np.add,
    "Mul": np.multiply,
    "Tanh": np.tanh,
    "Copy": lambda x: x,
    "LE": np.less_equal,
    "Not": np.logical_not,
}
DTYPES = {BOOL: np.bool_, 10: np.int64}


class Bound(MutableMapping[str, Array]):
    """A Do's workspace: bound names are blobs of the workspace outside."""

    def __init__(self, outside: MutableMapping[str, Array], bound: dict[str, str]) -> None:
        self.outside, self.bound, self.own = outside, bound, dict[str, Array]()

    def _place(self, name: str) -> tuple[MutableMapping[str, Array], str]:
        bound = name in self.bound
        return (self.outside, self.bound[name]) if bound else (self.own, name)

    def __getitem__(self, name: str) -> Array:
        blobs, own = self._place(name)
        return blobs[own]

    def __setitem__(self, name: str, value: Array) -> None:
        blobs, own = self._place(name)
        blobs[own] = value

    def __delitem__(self, name: str) -> None:
        raise NotImplementedError

    def __iter__(self) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


def execute(made: NetDef, blobs: MutableMapping[str, Array]) -> None:
    """Run a net on the blobs of a workspace."""
    for o in made.op:
        args = {arg.name: arg for arg in o.arg}
        match o.type:
            case "CreateScope":
                pass
            case "ConstantFill":
                dtype = DTYPES[args["dtype"].i]
                blobs[o.output[0]] = np.full(list(args["shape"].ints), args["value"].i, dtype)
            case "If":
                name = "then_net" if blobs[o.input[0]].item() else "else_net"
                if name in args:
                    execute(args[name].n, blobs)
            case "While":
                _repeat(o, args, blobs)
            case "Do":
                names = [*o.input[:-1], *o.output[:-1]]
                pairs = zip(args["inner_blobs"].strings, args["outer_blobs_idx"].ints, strict=True)
                bound = {name.decode(): names[index] for name, index in pairs}
                execute(args["net"].n, Bound(blobs, bound))
            case kind:
                with np.errstate(over="ignore"):
                    blobs[o.output[0]] = FUNCTIONS[kind](*(blobs[name] for name in o.input))


def _repeat(o: OperatorDef, args: dict[str, Any], blobs: MutableMapping[str, Array]) -> None:
    condition = args["cond_net"].n if "cond_net" in args else NetDef()
    execute(condition, blobs)
    while blobs[o.input[0]].item():
        execute(args["loop_net"].n, blobs)
        execute(condition, blobs)


class RandomNet:
    """A random net over the vectors a, b, c, the bools p, q and the input n, the trip count.

    Attributes:
        size: how many more operators there may be.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.size = 24
        self.count = 0

    def make(self) -> NetDef:
        ops = [op("Copy", "x", "a"), op("Copy", "w", "b"), op("Add", "x w", "c")]
        ops += [op("Copy", "p0", "p"), op("Not", "p", "q"), *self.operators(3, "abc", "pq")]
        return net(ops, "x w p0 n", "a b c p q")

    def operators(self, depth: int, floats: str, bools: str) -> list[OperatorDef]:
        """Some operators over vectors and bools with these names."""
        ops = list[OperatorDef]()
        for _ in range(int(self.rng.integers(1, 5))):
            self.size -= 1
            if self.size > 0:
                ops += self.one(depth, floats, bools)
        return ops

    def one(self, depth: int, floats: str, bools: str) -> list[OperatorDef]:
        x, y, z = self.rng.choice(list(floats), 3)
        p, q = self.rng.choice(list(bools), 2)
        kinds = ["Add", "Mul", "Tanh", "Not", *(["If", "Do", "While"] if depth else [])]
        kind = str(self.rng.choice(kinds))
        match kind:
            case "If":
                then, other = (body(*self.operators(depth - 1, floats, bools)) for _ in "12")
                other = other if self.rng.random() < 0.7 else None
                return [branch(" ".join([p, *floats, *bools]), "", then, other)]
            case "Do":
                return self.do(depth, floats, bools)
            case "While":
                return self.loop(depth, floats, bools)
            case "Not":
                return [op("Not", p, q)]
            case _:
                return [op(kind, x if kind == "Tanh" else f"{x} {y}", z)]

    def do(self, depth: int, floats: str, bools: str) -> list[OperatorDef]:
        """Inside, the vectors change their names."""
        self.count += 1
        inner = "abc"[: len(floats)]
        bound = dict(zip(inner, self.rng.permutation(list(floats)), strict=True))
        bound |= {name: name for name in (*bools, "n")}
        outside, name = " ".join([*floats, *bools, "n"]), f"s{self.count}"
        inside = body(*self.operators(depth - 1, inner, bools))
        return [scope(name), do(inside, bound, outside, "", name)]

    def loop(self, depth: int, floats: str, bools: str) -> list[OperatorDef]:
        """From i = 0 to n, or to 2, where the net knows that."""
        self.count += 1
        i, k, go, one = (f"{name}{self.count}" for name in ("i", "k", "go", "one"))
        known = self.rng.random() < 0.5
        starts = [constant(i, 0), constant(one, 1), constant(go, 0, BOOL)]
        starts.append(constant(k, int(self.rng.integers(0, 3))) if known else op("Copy", "n", k))
        condition = [op("Add", f"{i} {one}", i), op("LE", f"{i} {k}", go)]
        inside = body(*self.operators(depth - 1, floats, bools))
        if self.rng.random() < 0.3:
            extra = self.operators(0, floats, bools)
            condition = [*extra, *condition]
        inputs = " ".join([go, *floats, *bools, i, one, k])
        return [*starts, loop(inputs, "", inside, body(*condition))]
