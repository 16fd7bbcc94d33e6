# pyright: basic, reportMissingImports=false
"""What a mask selects: `h[mask] = cell(x[mask], h[mask])`, `y[y < 0] *= 0.1`, `loss[mask].mean()`.

How many rows `x[mask]` has is not known before the run. Where all that is computed of them is
computed row by row and put back where the same mask is true, all rows may be computed and those
that the mask leaves out be forgotten: `h = where(mask, cell(x, h), h)`. These are zeros at first,
so that what is computed of them is finite, and their gradients are zeros too: operators that have
no finite value or slope at some number (a logarithm, a quotient, a softmax of what may be minus
infinity) are not taken.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.fx import Graph, Node
from torch.utils._pytree import tree_flatten
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import BY_TENSORS, Value, location
from rnncc.frontends.torch.types import element_type
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of, dtype_of

_BY_ELEMENT = frozenset(
    "add sub rsub mul neg abs tanh sigmoid relu leaky_relu elu gelu silu softplus hardtanh clamp "
    "clamp_min clamp_max exp sin cos erf sign floor ceil round clone _to_copy detach alias where "
    "maximum minimum eq ne lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and "
    "bitwise_or bitwise_not bitwise_xor log_sigmoid".split()
)
"""Operators of elements that are finite, with finite slopes, wherever their operands are."""
_ALONG = frozenset(
    "sum mean amax amin cat select slice split split_with_sizes chunk unsqueeze cumsum flip".split()
)
"""Operators along axes, which must be others than that of the rows."""
_CELLS = ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
_OF_ROWS = {"mm": 0, "addmm": 1, "linear": 0, **dict.fromkeys(_CELLS, 0)}
"""Products, and cells, by where their rows are."""
_CHECKS = ("_assert_scalar", "sym_constrain_range_for_size", "sym_constrain_range")
_QUESTIONS = (operator.ge, operator.le, operator.gt, operator.lt, operator.eq, operator.ne)
_COUNT = object()
"""The number of rows, of which nothing but PyTorch's own checks may be computed."""
Call = Callable[[Node], Any]


class Selections:
    """Which nodes of a graph are rows that a mask selects, and which mask."""

    def __init__(self) -> None:
        self._masks: dict[Node, Node] = {}
        self._flags: dict[Node, Value] = {}
        """The masks' values."""
        self._counts: set[Node] = set()
        self._sizes: dict[str, Dim] = {}
        """PyTorch's symbols of how many rows there are: here all of them."""
        self._first: dict[Node, Node] = {}
        """Of nodes that compute the same, the first."""

    def sized(self, size: Callable[[Any], Dim]) -> Callable[[Any], Dim]:
        """What a size is where some are those of selections."""

        def known(value: Any) -> Dim:
            replacement = self._sizes.get(str(value)) if self._sizes else None
            return size(value) if replacement is None else replacement

        return known

    def lowered(self, b: Builder, node: Node, env: Any, call: Call) -> Any:
        """What a node becomes, given what other ones are, and what makes it elsewhere.

        Raises:
            CompileError: it needs to know how many rows a mask selects.
        """
        mask = self._mask_of(node)
        if not self._masks and mask is None:
            return call(node)
        b.loc, name = location(node), _name(node)
        masks = {self._masks[n] for n in node.all_input_nodes if n in self._masks}
        if name == "index" and mask is not None and not masks:
            return self._select(b, node, env, mask)
        if not self._counts.isdisjoint(node.all_input_nodes):
            return self._checked(node)
        if not masks:
            return call(node)
        if len(masks) > 1:
            _refuse(node)
        of_rows = masks.pop()
        if name == "index_put" and mask is of_rows and node.args[0] not in self._masks:
            return _put(b, node, env, self._flags[of_rows])
        if name == "sym_size" and node.args[1] == 0:
            self._counts.add(node)
            return _COUNT
        if name in ("sum", "mean") and len(node.args) == 1 and not node.kwargs:
            return _reduced(b, node, env[node.args[0]], self._flags[of_rows])
        if not self._is_by_row(node, name):
            _refuse(node)
        self._masks[node] = of_rows
        return call(node)

    def check(self, results: Any) -> None:
        """Refuse rows among a graph's results: how many there are is not known."""
        for node in results:
            if isinstance(node, Node) and (node in self._masks or node in self._counts):
                what = "indexing with a mask is not supported where the number of rows is not known"
                raise CompileError(location(node), what, f"torch.where, or {BY_TENSORS}")

    def _mask_of(self, node: Node) -> Node | None:
        """The mask by which alone a tensor is indexed."""
        if _name(node) not in ("index", "index_put"):
            return None
        indices: Any = node.args[1]
        if len(indices) != 1 or indices[0] is None or indices[0].meta["val"].dtype != torch.bool:
            return None
        if not self._first:
            self._first = _first_of_each(node.graph)
        return self._first[indices[0]]

    def _select(self, b: Builder, node: Node, env: Any, mask: Node) -> Value:
        indices: Any = node.args[1]
        x, flags, count = env[node.args[0]], env[indices[0]], str(node.meta["val"].shape[0])
        if not isinstance(x, SSAValue) or not count.startswith("u"):  # complex, or of known size
            _refuse(node)
        flat = _flat(b, x, flags)
        self._sizes[count] = dims_of(flat)[0]
        self._masks[node], self._flags[mask] = mask, flags
        return _where(b, flags, flat, b.fill(0, (), dtype_of(x)))

    def _checked(self, node: Node) -> Any:
        """A check of how many rows there are, which are as many as there are."""
        if node.target in _QUESTIONS:
            self._counts.add(node)
        elif _name(node) not in _CHECKS:
            _refuse(node)
        return _COUNT

    def _is_by_row(self, node: Node, name: str) -> bool:
        if node.target is operator.getitem:
            return True
        if name in _OF_ROWS:
            at = _OF_ROWS[name]
            rows = 2 if name in _CELLS else 1  # a cell's state is of the same rows
            others = (*node.args[:at], *node.args[at + rows :])
            return all(x not in self._masks for x in others)
        if name == "div":
            return isinstance(node.args[1], (int, float)) and node.args[1] != 0
        if name == "pow":
            return isinstance(node.args[1], int) and node.args[1] > 0
        if name == "native_layer_norm":
            x: Any = node.args[0]
            shape: Any = node.args[1]
            return x in self._masks and len(shape) < x.meta["val"].dim()
        if name in _BY_ELEMENT:
            return self._are_for_all_rows(node)
        return name in _ALONG and _is_along_others(node)

    def _are_for_all_rows(self, node: Node) -> bool:
        """Whether other operands are the same for each row, not as many rows of their own."""
        rank = node.meta["val"].dim()
        others = (n.meta["val"] for n in node.all_input_nodes if n not in self._masks)
        return all(x.dim() < rank or x.shape[0] == 1 for x in others)


def _name(node: Node) -> str:
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return ""
    return target.name().partition("::")[2].partition(".")[0]


def _first_of_each(graph: Graph) -> dict[Node, Node]:
    """For each node the first that computes the same: `~mask` may be written at each use."""
    first, by_key = dict[Node, Node](), dict[Any, Node]()

    def known(value: Any) -> Any:
        return first[value] if isinstance(value, Node) else (type(value), value)

    for node in graph.nodes:
        leaves, spec = tree_flatten((node.args, node.kwargs))
        key = node.target, str(spec), tuple(map(known, leaves))
        first[node] = by_key.setdefault(key, node) if _is_pure(node) else node
    return first


def _is_pure(node: Node) -> bool:
    """Whether a node computes the same wherever it stands."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
        return False
    return torch.Tag.nondeterministic_seeded not in target.tags


def _is_along_others(node: Node) -> bool:
    """Whether an operator's axes are others than the first."""
    target: Any = node.target
    bound = {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}
    names = [argument.name for argument in target._schema.arguments]
    bound |= {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    dims = bound.get("dim", bound.get("dims"))
    rank = node.all_input_nodes[0].meta["val"].dim() + (_name(node) == "unsqueeze")
    axes = dims if isinstance(dims, (list, tuple)) else [dims]
    return bool(axes) and all(isinstance(a, int) and a % rank != 0 for a in axes)


def _flat(b: Builder, x: Value, mask: Value) -> Value:
    """x with the axes of a mask as one."""
    own = dims_of(mask)
    return b.reshape(x, (product(own), *dims_of(x)[len(own) :]))


def _where(b: Builder, mask: Value, x: Value, other: Value) -> Value:
    """Rows x where a mask is true, else others."""
    flags = b.reshape(mask, (product(dims_of(mask)),))
    return b.select(b.broadcast(flags, dims_of(x), (0,)), x, other)


def _put(b: Builder, node: Node, env: Any, mask: Value) -> Value:
    """A tensor with selected rows put back, or added."""
    base, new = env[node.args[0]], env[node.args[2]]
    flat = _flat(b, base, mask)
    dims, rank = dims_of(flat), len(dims_of(flat))
    rows = b.broadcast(new, dims, range(rank - len(dims_of(new)), rank))
    if len(node.args) > 3 and node.args[3]:
        rows = b.add(flat, rows)
    return b.reshape(_where(b, mask, rows, flat), dims_of(base))


def _reduced(b: Builder, node: Node, x: Value, mask: Value) -> Value:
    """The sum or the mean of selected rows."""
    kind = element_type(node.meta["val"].dtype, b.loc)
    kept = _where(b, mask, b.cast(x, kind), b.fill(0, (), kind))
    total = b.reshape(b.reduce("sum", kept, range(len(dims_of(x)))), ())
    if _name(node) == "sum":
        return total
    flags = b.cast(mask, kind)
    count = b.reshape(b.reduce("sum", flags, range(len(dims_of(mask)))), ())
    others = b.cast(b.size(product(dims_of(x)[1:])), kind)
    return b.div(total, b.mul(count, others))


def _refuse(node: Node) -> NoReturn:
    what = "indexing with a mask is not supported where this is computed of what it selects"
    raise CompileError(location(node), what, f"torch.where, or {BY_TENSORS}")
