# pyright: basic, reportMissingImports=false
"""From a graph of aten operators to ops of `rnn`, one node after another."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.torch.aten import COMPLEX, COMPLEX_FROM_FLOATS, OPERATORS
from rnncc.frontends.torch.aten.complex_numbers import is_complex
from rnncc.frontends.torch.branches.selected import Selections
from rnncc.frontends.torch.branches.trip_bounds import most_iterations
from rnncc.frontends.torch.loops import Tensor, Tensors, flat, scan
from rnncc.frontends.torch.node_context import BY_TENSORS, NodeContext, Translation, Value, location
from rnncc.frontends.torch.numbers.size_numbers import (
    float_of_sizes,
    is_float,
    is_rounded,
    refuse_floats,
)
from rnncc.frontends.torch.numbers.wrapped_numbers import meeting
from rnncc.frontends.torch.own_operators.function_body import (
    Environment,
    backward_nodes,
    lower_function,
)
from rnncc.frontends.torch.own_operators.function_op import WITH_GRADIENT
from rnncc.frontends.torch.randomness import Random, draws
from rnncc.frontends.torch.sizes import floor_divide, remainder
from rnncc.frontends.torch.types import (
    DTYPES,
    LARGEST_CONSTANT,
    NARROW,
    as_computed,
    element_type,
)
from rnncc.frontends.torch.unrolled.view import parts_of
from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim
from rnncc.ir.gates import DEFAULT_LIMIT, NESTED_LIMIT, Branch, repeat, when
from rnncc.ir.size_proofs import larger, smaller
from rnncc.ir.types import dims_of
from rnncc.nn.complex_numbers import Complex
from rnncc.nn.narrow import narrowed

SIZES: dict[Any, Callable[..., Dim]] = {
    operator.neg: Dim.__neg__,
    operator.add: Dim.__add__,
    operator.sub: Dim.__sub__,
    operator.mul: Dim.__mul__,
    operator.floordiv: floor_divide,
    operator.mod: remainder,
    torch.sym_max: larger,
    torch.sym_min: smaller,
}
"""Operators on sizes."""


def lower_graph(
    module: GraphModule,
    b: Builder,
    inputs: Sequence[Any],
    size: Callable[[Any], Dim],
    random: Random | None,
    limit: int = DEFAULT_LIMIT,
) -> list[Any]:
    """Append a graph's ops.

    Args:
        module: the graph, and the constants that it names.
        inputs: the values of its placeholders, in order.
        size: what a size of a fake tensor is.
        random: where random numbers come from; None where there are to be none.
        limit: the most iterations of a loop that ends by itself; more are an error of the call.

    Returns:
        What it returns, in order.

    Raises:
        CompileError: an operator, or a form of it, is not supported; it names the user's line.
    """
    lowering = _Lowering(b, size, random or Random(), backward_nodes(module.graph), limit)
    placeholders = module.graph.find_nodes(op="placeholder")
    lowering.env.update(zip(placeholders, inputs, strict=True))
    for node in module.graph.nodes:
        # Read as the body of a gradient, where the Function that it belongs to is lowered.
        if node in lowering.backward:
            continue
        match node.op:
            case "get_attr":
                held = getattr(module, str(node.target))
                inner = isinstance(held, GraphModule)
                lowering.env[node] = held if inner else _constant(b, node, held)
            case "call_function":
                lowering.env[node] = lowering.call(node)
            case "output":
                many = parts_of(node.args[0])
                lowering.selections.check(many)
                return [lowering.env[r] if isinstance(r, Node) else r for r in many]
            case _:
                continue
    raise AssertionError("a graph has no output")


def translation_of(
    target: Any, makes_complex: bool = False, takes_complex: bool = False
) -> Callable[..., Any] | None:
    """By the operator's full name, else without its overload; None for what is not supported."""
    if not isinstance(target, torch._ops.OpOverload):
        return None
    plain = _named(OPERATORS, target)
    if takes_complex and (translation := _named(COMPLEX, target)) is not None:
        return partial(translation, plain)
    if makes_complex:
        return _named(COMPLEX_FROM_FLOATS, target)
    return None if takes_complex else plain


def _named(table: Mapping[str, Translation], target: Any) -> Callable[..., Any] | None:
    """Views have forms that copy, which functionalization puts in their place."""
    name = target.name().removeprefix("aten::")
    full, base = name if "." in name else f"{name}.default", name.partition(".")[0]
    return table.get(full) or table.get(base) or table.get(base.removesuffix("_copy"))


class _Lowering:
    """The values of a graph's nodes."""

    def __init__(
        self,
        b: Builder,
        size: Callable[[Any], Dim],
        random: Random,
        backward: set[Node],
        limit: int,
    ) -> None:
        self.b, self.random, self.backward = b, random, backward
        self.selections = Selections()
        self.size = self.selections.sized(size)
        self.limit = limit
        self.env = Environment()

    def call(self, node: Node) -> Any:
        return self.selections.lowered(self.b, node, self.env, self._call)

    def _call(self, node: Node) -> Any:
        if node.target is WITH_GRADIENT:
            self.b.loc = location(node)
            return lower_function(self.b, node, self.env, self.backward, self._lower_backward)
        values: Any = map_arg((node.args, node.kwargs), lambda n: self.env[n])
        args, kwargs = values
        if node.target is operator.getitem:
            return args[0][args[1]]
        if (size := self._of_sizes(node, args)) is not None:
            return size
        if node.target in _HIGHER:
            _refuse_options(node)
            return _HIGHER[node.target](self, node, *args)
        context = NodeContext(self.b, node, self.size, self.random)
        translation = translation_of(node.target, context.is_complex, is_complex((args, kwargs)))
        if translation is None:
            of = " of complex numbers" if translation_of(node.target) is not None else ""
            context.refuse(f"operator{of} is not supported", _hint(node))
        refuse_floats(node)
        args = meeting(self.b, node, args)
        result = _rounded(self.b, node, context.call(translation, *args, **kwargs))
        if isinstance(result, SSAValue):
            result.name_hint = result.name_hint or node.name
        return result

    def _of_sizes(self, node: Node, args: Sequence[Any]) -> Any:
        """What a node computes of sizes, or a tensor's; None where it gives a tensor."""
        if node.target is torch.ops.aten.sym_size.int:
            return _plain(dims_of(flat(args[:1])[0])[args[1]])
        if node.target is torch.ops.aten.sym_numel.default:
            return _plain(math.prod(dims_of(flat(args[:1])[0]), start=Dim.of(1)))
        if is_float(node):
            return float_of_sizes(self.b, node, args)
        if is_rounded(node):
            return _plain(self.size(node.meta["val"]))
        return _size_of(node, args) if node.target in SIZES else None

    def _lower_backward(self, b: Builder, known: Environment, nodes: Iterable[Node]) -> None:
        inner = _Lowering(b, self.size, Random(), set(), self.limit)
        inner.env = known
        for node in nodes:
            known[node] = inner.call(node)

    def scan(
        self, node: Node, step: GraphModule, inits: Tensors, xs: Tensors, held: Sequence[Any]
    ) -> list[Tensor]:
        """PyTorch's loop: (state..., rows..., what it holds...) -> (state..., rows of ys...)."""
        consts = _values_of(held)

        def body(
            b: Builder, random: Random, held_values: Tensors, carry: Tensors, rows: Tensors
        ) -> tuple[Tensors, Tensors]:
            inputs = [*carry, *rows, *_refilled(held, held_values)]
            results = lower_graph(step, b, inputs, self.size, random, NESTED_LIMIT)
            return results[: len(inits)], results[len(inits) :]

        finals, ys = scan(self.b, self.random, step, body, consts, inits, xs)
        return [*finals, *ys]

    def map(self, node: Node, step: GraphModule, xs: Tensors, held: Sequence[Any]) -> list[Tensor]:
        """PyTorch's loop without a state."""
        return self.scan(node, step, [], xs, held)

    def cond(
        self, node: Node, gate: Value, one: GraphModule, other: GraphModule, operands: Sequence[Any]
    ) -> list[Value]:
        """PyTorch's conditional: a loop of one step for each branch."""
        context = NodeContext(self.b, node, self.size, self.random)
        if is_complex((operands, {})) or not isinstance(gate, SSAValue):
            context.refuse("complex numbers and conditions on sizes are not supported here")
        if not all(isinstance(x, torch.Tensor) for x in node.meta["val"]):
            context.refuse("branches that give different numbers of Python are not supported here")
        drawn = self.random.handed_on(self.b) if draws(one) or draws(other) else []
        consts = [*_values_of(operands), *drawn]

        def branch(graph: GraphModule) -> Branch:
            def body(b: Builder, held: Values, _: Values) -> list[Value]:
                random = self.random.within(*held[-2:]) if drawn else None
                inputs = _refilled(operands, held)
                return lower_graph(graph, b, inputs, self.size, random, self.limit)

            return body

        kinds = [(context.shape(x), element_type(x.dtype, self.b.loc)) for x in node.meta["val"]]
        flag, nothing = self.b.reshape(gate, ()), [self.b.fill(0, *kind) for kind in kinds]
        results = when(self.b, flag, consts, nothing, branch(one))
        return when(self.b, self.b.logical_not(flag), consts, results, branch(other))

    def while_loop(
        self,
        node: Node,
        going: GraphModule,
        step: GraphModule,
        carried: Sequence[Any],
        held: Sequence[Any],
    ) -> list[Value]:
        """PyTorch's loop while `going(carried)`: (carried..., what it holds...) -> (carried...)."""
        if not all(isinstance(x, SSAValue) for x in carried):
            what = "complex numbers and sizes that change from step to step are not supported here"
            NodeContext(self.b, node, self.size, self.random).refuse(what)
        drawn = self.random.handed_on(self.b) if draws(going) or draws(step) else []
        consts = [*_values_of(held), *drawn]
        most = most_iterations(node.args[2], going, step)
        limit = self.limit if most is None else min(max(most, 1), self.limit)

        def lowered(b: Builder, graph: GraphModule, held_values: Values, carry: Values) -> Any:
            """What a graph gives; where numbers are drawn, iterations are counted last."""
            random = None
            if drawn:
                before = b.mul(held_values[-1], b.fill(limit, [], "i32"))
                random = self.random.within(held_values[-2], b.add(before, carry[-1]))
            inputs = [*carry[: len(carried)], *_refilled(held, held_values)]
            return lower_graph(graph, b, inputs, self.size, random, NESTED_LIMIT)

        def goes_on(b: Builder, held_values: Values, carry: Values) -> SSAValue:
            return b.reshape(lowered(b, going, held_values, carry)[0], ())

        def body(b: Builder, held_values: Values, carry: Values) -> list[SSAValue]:
            new = lowered(b, step, held_values, carry[1:])
            if drawn:
                new = [*new, b.add(carry[-1], b.fill(1, [], "i32"))]
            return [goes_on(b, held_values, new), *new]

        starts = [*carried, self.b.fill(0, [], "i32")] if drawn else carried
        inits = [goes_on(self.b, consts, starts), *starts]
        return repeat(self.b, consts, inits, body, limit)[1 : 1 + len(carried)]


_HIGHER: dict[Any, Callable[..., list[Any]]] = {
    torch.ops.higher_order.scan: _Lowering.scan,
    torch.ops.higher_order.map_impl: _Lowering.map,
    torch.ops.higher_order.cond: _Lowering.cond,
    torch.ops.higher_order.while_loop: _Lowering.while_loop,
}
"""Operators whose arguments are graphs."""


def _refuse_options(node: Node) -> None:
    """Refuse what versions of PyTorch later than ours may tell of such an operator besides."""
    for name, value in node.kwargs.items():
        if value:
            raise CompileError(location(node), f"{name} = {value!r} is not supported")


def _rounded(b: Builder, node: Node, result: Any) -> Any:
    """An operator's results, those of few bits rounded or wrapped; views have been already."""
    if node.target.is_view:  # pyright: ignore
        return result
    expected = node.meta.get("val")
    if isinstance(result, tuple) and isinstance(expected, (tuple, list)):
        return tuple(_rounded_to(b, *pair) for pair in zip(result, expected, strict=False))
    return _rounded_to(b, result, expected)


def _rounded_to(b: Builder, value: Any, fake: Any) -> Any:
    narrow = isinstance(fake, torch.Tensor) and isinstance(value, SSAValue) and fake.dtype in NARROW
    return narrowed(b, value, NARROW[fake.dtype]) if narrow else value


def _values_of(held: Sequence[Any]) -> list[Any]:
    """What a graph within this one holds, without its sizes."""
    return [x for x in held if isinstance(x, (SSAValue, Complex))]


def _refilled(held: Sequence[Any], values: Tensors) -> list[Any]:
    """What it holds, with other values in the place of those, and the same sizes."""
    remaining = iter(values)
    return [next(remaining) if isinstance(x, (SSAValue, Complex)) else x for x in held]


def _size_of(node: Node, args: Sequence[Dim | int]) -> Dim | int:
    """What an operator on sizes gives."""
    try:
        return _plain(SIZES[node.target](*map(Dim.of, args)))
    except CompileError as error:
        raise CompileError(location(node), error.what, error.hint) from error


def _hint(node: Node) -> str:
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return "draw the numbers outside and give them as inputs"
    if node.target is torch.ops.aten._local_scalar_dense.default:
        taken: Any = node.args[0]
        is_size = not taken.meta["val"].is_floating_point()
        return BY_TENSORS if is_size else "keep it a tensor: x.detach(), not x.item()"
    if node.target is torch.ops.aten._assert_async.msg:
        return "assert of what comes out, outside"
    return "docs/torch.md lists what is"


def _plain(size: Dim) -> Dim | int:
    return int(size) if size.is_static else size


def _constant(b: Builder, node: Node, tensor: torch.Tensor) -> Tensor:
    b.loc = location(node)
    if tensor.is_complex():
        re, im = (_constant(b, node, part.contiguous()) for part in (tensor.real, tensor.imag))
        return Complex(*flat((re, im)))
    tensor = as_computed(tensor)
    if tensor.dtype not in DTYPES or tensor.numel() > LARGEST_CONSTANT:
        what = f"a constant of {tensor.numel()} elements of {tensor.dtype}"
        raise CompileError(b.loc, f"{what} is made here", "make it outside")
    return b.constant(tensor.detach().cpu().numpy(), DTYPES[tensor.dtype])
