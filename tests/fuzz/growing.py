"""A graph that grows by a node at a time, with the shapes of its values."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from tests.frontends.onnx.models import KINDS, node

Dims = tuple[int | str, ...]
MAX_RANK = 4


class NotPossibleError(Exception):
    """What was drawn does not fit the values that the model has so far."""


@dataclass(frozen=True)
class Tensor:
    """A value of the model."""

    name: str
    dims: Dims
    dtype: str = "f32"

    @property
    def rank(self) -> int:
        return len(self.dims)


@dataclass
class Growing:
    """A graph that grows by a node at a time."""

    rng: random.Random
    prefix: str = ""
    opset: int = 17
    values: list[Tensor] = field(default_factory=list[Tensor])
    nodes: list[Any] = field(default_factory=list[Any])
    constants: dict[str, Any] = field(default_factory=dict[str, Any])

    def fresh(self) -> str:
        return f"{self.prefix}v{len(self.nodes)}_{len(self.values)}"

    def inner(self, *values: Tensor) -> Growing:
        """A graph inside of this one, with some values to begin with."""
        return Growing(self.rng, f"{self.fresh()}_", self.opset, list(values))

    def one_of(self, *choices: Any) -> Any:
        """One of several things."""
        return self.rng.choice(choices)

    def pick(self, least: int = 0, most: int = MAX_RANK, dtype: str = "f32") -> Tensor:
        fitting = [v for v in self.values if least <= v.rank <= most and v.dtype == dtype]
        if not fitting:
            raise NotPossibleError
        # the newest ones more often, so that chains grow
        return self.rng.choice(fitting[-3:] if self.rng.random() < 0.6 else fitting)

    def constant(self, value: Any) -> str:
        name = f"{self.prefix}k{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def floats(self, *shape: int) -> str:
        numbers = np.random.default_rng(self.rng.randrange(1 << 30))
        return self.constant((numbers.standard_normal(shape) * 0.5).astype(np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def add(
        self, kind: str, inputs: Sequence[str | Tensor], dims: Dims, dtype: str = "f32", **more: Any
    ) -> Tensor:
        """Append a node of one result."""
        return self.add_all(kind, inputs, [(dims, dtype)], **more)[0]

    def add_all(
        self,
        kind: str,
        inputs: Sequence[str | Tensor],
        results: Sequence[tuple[Dims, str] | None],
        **more: Any,
    ) -> list[Tensor]:
        """Append a node of several results, of which None stands for one that nobody wants."""
        if any(len(made[0]) > MAX_RANK + 1 for made in results if made):
            raise NotPossibleError
        if "domain" not in more and not onnx.defs.has(kind, max_inclusive_version=self.opset):
            raise NotPossibleError
        name = self.fresh()
        made = [Tensor(f"{name}_{i}" if i else name, *r) for i, r in enumerate(results) if r]
        names = [f"{name}_{i}" if i else name for i, _ in enumerate(results)]
        outputs = " ".join(n if r else "_" for n, r in zip(names, results, strict=True))
        given = [i.name if isinstance(i, Tensor) else i or "_" for i in inputs]
        self.nodes.append(node(kind, " ".join(given), outputs, **more))
        self.values += made
        return made

    def listed(
        self,
        kind: str,
        x: Tensor,
        lists: Mapping[str, Sequence[int]],
        since: int,
        dims: Dims,
        **more: Any,
    ) -> Tensor:
        """Append a node whose lists of integers are attributes, and inputs from an opset on."""
        if self.opset < since:
            return self.add(kind, [x], dims, x.dtype, **lists, **more)
        inputs = [self.ints(*numbers) for numbers in lists.values()]
        return self.add(kind, [x, *inputs], dims, x.dtype, **more)

    def squeezed(self, x: Tensor, *axes: int) -> Tensor:
        """Without axes of size 1."""
        left = tuple(d for i, d in enumerate(x.dims) if i not in axes)
        return self.listed("Squeeze", x, {"axes": axes}, 13, left)

    def unsqueezed(self, x: Tensor, axis: int) -> Tensor:
        """With one more axis."""
        dims = (*x.dims[:axis], 1, *x.dims[axis:])
        return self.listed("Unsqueeze", x, {"axes": [axis]}, 13, dims)

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """As another type."""
        return self.add("Cast", [x], x.dims, dtype, to=KINDS[dtype])

    def size_of(self, x: Tensor, axis: int) -> Tensor:
        """The size of an axis, of one element."""
        shape = self.add("Shape", [x], (x.rank,), "i64")
        return self.add("Gather", [shape, self.ints(axis)], (1,), "i64", axis=0)

    def axis(self, x: Tensor, static: bool = False) -> int:
        """An axis, of known size if asked."""
        fitting = [i for i, d in enumerate(x.dims) if not static or isinstance(d, int)]
        if not fitting:
            raise NotPossibleError
        return self.rng.choice(fitting)

    def spelt(self, axis: int, rank: int) -> int:
        """The axis counted from the front or from the back."""
        return axis - rank if self.rng.random() < 0.5 else axis


def broadcast(one: Dims, other: Dims) -> Dims:
    """The shape of both together."""
    rank = max(len(one), len(other))
    pairs = zip(*(((1,) * (rank - len(d)) + d) for d in (one, other)), strict=True)
    made: list[int | str] = []
    for a, b in pairs:
        if a != b and 1 not in (a, b):
            raise NotPossibleError
        made.append(b if a == 1 else a)
    return tuple(made)


def replaced(dims: Dims, axis: int, size: int | str) -> Dims:
    """The shape with another size along an axis."""
    return (*dims[:axis], size, *dims[axis + 1 :])


Maker = Callable[[Growing], None]


def grow(g: Growing, count: int, makers: Sequence[Maker]) -> None:
    """Append about `count` nodes; what does not fit is left out."""
    for _ in range(count):
        before = len(g.nodes), len(g.values)
        try:
            g.rng.choice(makers)(g)
        except NotPossibleError:
            del g.nodes[before[0] :], g.values[before[1] :]
