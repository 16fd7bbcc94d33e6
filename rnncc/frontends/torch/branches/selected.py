# pyright: basic, reportMissingImports=false
"""What a mask selects: `h[mask] = cell(x[mask], h[mask])`, `y[y < 0] *= 0.1`, `loss[mask].mean()`,
and the same by its positions: `rows, = torch.where(mask)`, `out.index_add_(0, rows, net(x[rows]))`.

How many rows `x[mask]` has is not known before the run. Where all that is computed of them is
computed row by row and put back where the same mask is true, all rows may be computed and those
that the mask leaves out be forgotten: `h = where(mask, cell(x, h), h)`. These are zeros at first,
so that what is computed of them is finite, and their gradients are zeros too: operators that have
no finite value or slope at some number (a logarithm, a quotient, a softmax of what may be minus
infinity) are not taken.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
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
_FLATTENED = ("view", "reshape", "flatten", "squeeze", "_unsafe_view")
"""What makes positions along a mask's only axis a vector."""
_COUNT = object()
"""The number of rows, of which nothing but PyTorch's own checks may be computed."""
Call = Callable[[Node], Any]


class Selections:
    """Which nodes of a graph are rows that a mask selects, and which mask."""

    def __init__(self) -> None:
        self._masks: dict[Node, Node] = {}
        self._flags: dict[Node, Value] = {}
        """The masks' values."""
        self._columns: dict[Node, int] = {}
        """Positions of what is true in a mask, along one of its axes."""
        self._positions: set[Node] = set()
        """Those along all axes."""
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
        mask, name = self._mask_of(node), _name(node)
        if not self._masks and mask is None and name != "nonzero":
            return call(node)
        b.loc = location(node)
        masks = {self._masks[n] for n in node.all_input_nodes if n in self._masks}
        if name == "nonzero" and not masks:
            return self._position(b, node, env)
        if not self._positions.isdisjoint(node.all_input_nodes) and name != "sym_size":
            return self._column(node, name, env)
        if name == "index" and mask is not None and masks <= {mask}:
            return self._select(b, node, env, mask)
        if not self._counts.isdisjoint(node.all_input_nodes):
            return self._checked(node)
        if len(masks) > 1:
            _refuse(node)
        return self._of_rows(b, node, env, mask, masks.pop(), call) if masks else call(node)

    def _of_rows(
        self, b: Builder, node: Node, env: Any, mask: Node | None, of_rows: Node, call: Call
    ) -> Any:
        """What is computed of rows that one mask selects."""
        name = _name(node)
        if not self._columns.keys().isdisjoint(node.all_input_nodes) and mask is None:
            return self._at_columns(b, node, name, env, of_rows, call)
        if name == "index_put" and mask is of_rows and node.args[0] not in self._masks:
            self._check_put(node, dims_of(env[node.args[0]]), dims_of(self._flags[of_rows]))
            return _put(b, node, env, self._flags[of_rows])
        if name == "sym_size" and node.args[1] == 0:
            self._counts.add(node)
            return _COUNT
        if name in ("sum", "mean") and len(node.args) == 1 and not node.kwargs:
            return _reduced(b, node, env[node.args[0]], self._flags[of_rows])
        return self._by_row(node, name, of_rows, call)

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
        if any(index is None for index in indices):
            return None
        columns = [self._columns.get(index) for index in indices]
        if None not in columns:
            mask = self._masks[indices[0]]
            own = {self._masks[index] for index in indices} == {mask}
            return mask if own and columns == [*range(len(dims_of(self._flags[mask])))] else None
        if len(indices) != 1 or indices[0].meta["val"].dtype != torch.bool:
            return None
        return self._first_of(indices[0])

    def _first_of(self, node: Node) -> Node:
        if not self._first:
            self._first = _first_of_each(node.graph)
        return self._first[node]

    def _select(self, b: Builder, node: Node, env: Any, mask: Node) -> Value:
        indices: Any = node.args[1]
        x, count = env[node.args[0]], str(node.meta["val"].shape[0])
        flags = self._flags[mask] if indices[0] in self._columns else env[indices[0]]
        if node.args[0] in self._masks or not isinstance(x, SSAValue) or count[0] != "u":
            _refuse(node)  # of what is selected, complex, or of known size
        _check_size(node, dims_of(x), dims_of(flags))
        flat = _flat(b, x, flags)
        self._sizes[count] = dims_of(flat)[0]
        self._masks[node], self._flags[mask] = mask, flags
        return _where(b, flags, flat, b.fill(0, (), dtype_of(x)))

    def _position(self, b: Builder, node: Node, env: Any) -> list[Value]:
        """Along each axis of a mask the positions of all elements."""
        mask: Any = node.args[0]
        flags, count = env[mask], str(node.meta["val"].shape[0])
        if not isinstance(flags, SSAValue) or not dims_of(flags) or count[0] != "u":
            _refuse(node)
        if dtype_of(flags) != "i1":
            flags = b.compare("ne", flags, b.fill(0, dims_of(flags), dtype_of(flags)))
        dims, first = dims_of(flags), self._first_of(mask)
        self._sizes[count] = product(dims)
        self._masks[node], self._flags[first] = first, flags
        self._positions.add(node)
        return [b.reshape(b.iota(dims, at, "i64"), (product(dims),)) for at in range(len(dims))]

    def _column(self, node: Node, name: str, env: Any) -> Any:
        """What is taken of positions: those along one axis."""
        positions: Any = node.args[0]
        columns, at = env[positions], None
        self._masks[node] = self._masks[positions]
        if name == "unbind" and node.args[1:] in ((1,), (-1,)):
            self._positions.add(node)
            return columns
        if node.target is operator.getitem:
            at = node.args[1]
        elif name == "select" and node.args[1] in (1, -1):
            at = node.args[2]
        elif len(columns) == 1 and node.meta["val"].dim() == 1 and name in _FLATTENED:
            at = 0
        if not isinstance(at, int):
            _refuse(node)
        self._columns[node] = at % len(columns)
        return columns[at]

    def _at_columns(
        self, b: Builder, node: Node, name: str, env: Any, mask: Node, call: Call
    ) -> Any:
        """Rows at positions along some axes of a mask, or what is added to such rows."""
        base, flags, known = node.args[0], self._flags[mask], self._columns
        dims = dims_of(flags)
        if base in known and name in _FLATTENED and node.meta["val"].dim() == 1:
            known[node], self._masks[node] = known[base], mask
            return env[base]
        if base in self._masks or node.kwargs:
            _refuse(node)
        if name == "index" or (name == "index_select" and node.args[1] == 0):
            indices: Any = node.args[1] if name == "index" else node.args[2:]
            columns = [known.get(index) for index in indices]
            if None in columns:
                _refuse(node)
            _check_size(node, dims_of(env[base]), [dims[at] for at in columns if at is not None])
            self._masks[node], x = mask, call(node)
            return _where(b, flags, x, b.fill(0, (), dtype_of(x)))
        index: Any = node.args[2] if len(node.args) == 4 else None
        if name not in ("index_add", "index_copy") or index not in known or node.args[1] != 0:
            return self._by_row(node, name, mask, call)
        source: Any = node.args[3]
        if self._masks.get(source) is not mask or source in known:
            _refuse(node)
        _check_size(node, dims_of(env[base]), [dims[known[index]]])
        if name == "index_copy" and len(dims) == 1:
            return _where(b, flags, env[source], env[base])
        if name == "index_copy":
            _refuse(node)
        env[source] = rows = _where(b, flags, env[source], b.fill(0, (), dtype_of(env[source])))
        return b.add(env[base], rows) if len(dims) == 1 else call(node)

    def _check_put(self, node: Node, dims: Sequence[Dim], own: Sequence[Dim]) -> None:
        """Refuse to put what has other sizes than a mask, or as many rows of its own as may be."""
        _check_size(node, dims, own)
        new: Any = node.args[2]
        size = new.meta["val"]
        if new not in self._masks and size.dim() > len(dims) - len(own) and size.shape[0] != 1:
            _refuse(node)

    def _by_row(self, node: Node, name: str, mask: Node, call: Call) -> Any:
        if not self._is_by_row(node, name):
            _refuse(node)
        self._masks[node] = mask
        return call(node)

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


def _check_size(node: Node, dims: Sequence[Dim], own: Sequence[Dim]) -> None:
    """Refuse to take rows of what has other sizes than a mask: its positions may be beyond it."""
    if list(dims[: len(own)]) != list(own):
        _refuse(node)


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
