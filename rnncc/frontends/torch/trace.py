# pyright: basic, reportMissingImports=false
"""From a graph of PyTorch calls to one of aten operators without side effects."""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any

import torch
import torch._decomp
from torch._functorch.autograd_function import autograd_function_apply
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter, Node
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from rnncc.errors import CompileError
from rnncc.frontends.torch.aliases import name_aliases
from rnncc.frontends.torch.detached import refuse_hidden_changes
from rnncc.frontends.torch.function_op import with_graphs
from rnncc.frontends.torch.graphs import graphs_of, has_transforms, is_transform
from rnncc.frontends.torch.inner_transforms import without_transforms
from rnncc.frontends.torch.lower import translation_of
from rnncc.frontends.torch.node_context import BRANCH, BY_TENSORS, OF_FLAG, line_of, location
from rnncc.frontends.torch.readings import refuse
from rnncc.frontends.torch.recurrent_op import CELLS, call_whole, recurrent_kind
from rnncc.frontends.torch.switches import without_switches
from rnncc.frontends.torch.unrolled.functional import changed_by
from rnncc.frontends.torch.watch import watching


class KeepsTensors(CompileError):
    """A step leaves tensors elsewhere than in its result.

    Attributes:
        changed: the numbers of the inputs that it changes in place, if that is how.
        tensors: these inputs, where they are known.
    """

    changed: Sequence[int] = ()
    tensors: Sequence[Any] = ()


def aten_graph(
    module: GraphModule,
    examples: Sequence[Any],
    mode: FakeTensorMode | None = None,
    plain: Mapping[int, int | None] | None = None,
) -> GraphModule:
    """The same function over aten operators; nodes know the user's lines, and results' shapes.

    Args:
        examples: tensors and sizes as the module takes them; tensors' values do not matter.
        mode: where the examples are fakes, the mode that they are of.
        plain: inputs that need no gradient, by number; of those that a later step gets from a
            result of this one, the number of the result.

    Raises:
        CompileError: an input is changed in place, or something acts on gradients.
    """
    without_switches(module)
    _refuse_forgotten(module)
    if has_transforms(module):
        module = without_transforms(module, lambda run: _trace_of(run, examples, mode, graded=True))
    _call_instead(module)
    name_aliases(module)
    nodes = [node for part in graphs_of(module) for node in part.graph.nodes]
    detaches = any(node.target in _DETACHING for node in nodes)
    traced = None
    if detaches or all(changed_by(node) is None for node in nodes):
        # Functionalization takes composite operators apart at the sizes of now: the graph would be
        # for one size of the batch.
        traced = _traced(module, examples, mode, functional=False)
        if detaches:
            _refuse_hidden_changes(traced, plain or {}, lambda: _traced(module, examples, mode))
    if traced is None or _has_changes(traced):
        traced = _traced(module, examples, mode)
    if _has_changes(traced):  # what a composite operator made, it changed
        traced = _traced(traced, examples, mode)
    traced.graph.eliminate_dead_code()
    return traced


def _refuse_hidden_changes(
    traced: GraphModule, plain: Mapping[int, int | None], name_inputs: Callable[[], object]
) -> None:
    """Refuse what autograd would not see; `name_inputs` refuses changed inputs by their number."""
    places = [place.name for place in traced.graph.find_nodes(op="placeholder")]
    while True:
        try:
            carrying = refuse_hidden_changes(traced, [places[number] for number in plain])
        except CompileError:
            name_inputs()
            raise
        kept = {number: result for number, result in plain.items() if result not in carrying}
        if len(kept) == len(plain):
            return
        plain = kept


def _traced(
    module: GraphModule,
    examples: Sequence[Any],
    mode: FakeTensorMode | None,
    functional: bool = True,
) -> GraphModule:
    """The graph that a run leaves; `functional` ones change nothing in place."""

    def run(*tensors: Any) -> Any:
        return _Whole(module).run(*tensors)

    traced = _trace_of(torch.func.functionalize(run) if functional else run, examples, mode)
    if functional:
        _refuse_changes(traced)
    return traced


def _trace_of(
    function: Callable[..., Any],
    examples: Sequence[Any],
    mode: FakeTensorMode | None,
    graded: bool = False,
) -> GraphModule:
    """The graph that a run leaves; `graded` ones have gradients of their own, if any are on now."""
    tracing: Any = "fake" if mode is None else "real"
    inside = nullcontext() if mode is None else mode
    differentiable = torch.is_grad_enabled()
    with (
        watching(lambda: differentiable),
        refused_by("", "PyTorch's tracing"),
        inside,
        torch.set_grad_enabled(graded and differentiable),
        fx_traceback.preserve_node_meta(),
    ):
        return make_fx(function, decompositions(), tracing)(*examples)


@contextmanager
def refused_by(place: str, name: str) -> Generator[None]:
    """What a part of PyTorch raises, or the user's code within it, as `CompileError`.

    Args:
        place: what is read.
        name: the part of PyTorch.
    """
    try:
        yield
    except CompileError:
        raise
    except Exception as error:
        line, reason, hint = line_of(error, place), str(error).strip().split("\n\n")[0], None
        if isinstance(error, GuardOnDataDependentSymNode):
            if OF_FLAG.search(reason):
                raise CompileError(line, BRANCH) from error
            hint = BY_TENSORS
        raise CompileError(line, f"{name}: {reason}", hint) from error


@cache
def decompositions() -> dict[Any, Any]:
    """How PyTorch takes operators apart, of those that have no translation."""
    known = {**torch._decomp.core_aten_decompositions(), **beside_core()}.items()
    found = {op: function for op, function in known if translation_of(op) is None}
    ops = torch.ops.aten
    copies = {
        ops.slice_copy.Tensor: ops.slice.Tensor,
        ops.split_copy.Tensor: ops.split.Tensor,
        ops.split_with_sizes_copy.default: ops.split_with_sizes.default,
    }
    own = {copy: partial(_copied_view, view) for copy, view in copies.items()}
    return {**found, **own, ops.native_batch_norm.default: _batch_norm}


@cache
def beside_core() -> dict[Any, Any]:
    """How operators fall apart that PyTorch counts among the core ones."""
    ops = torch.ops.aten
    resized = [ops.upsample_bilinear2d, ops.upsample_bicubic2d, ops.upsample_trilinear3d]
    known = torch._decomp.get_decompositions([*resized, ops.linspace, ops.addmv, ops.ldexp])
    own = {
        ops.one_hot.default: _one_hot,
        ops.cosine_similarity.default: _cosine_similarity,
        ops.rrelu_with_noise_functional.default: _rrelu,
    }
    return {**known, **own}


def _one_hot(index: Any, classes: int) -> Any:
    """PyTorch checks the classes on the CPU, not in all traces; here a lookup does it."""
    known = torch.arange(classes, device=index.device)
    if index.device.type == "cpu":
        index = known.index_select(0, index.flatten()).view(index.shape)
    return (index.unsqueeze(-1) == known).long()


def _cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """PyTorch's own changes norms in place, so that all would have to be traced again."""
    dtype = torch.promote_types(x1.dtype, x2.dtype)
    pair = [x.to(dtype) for x in torch.broadcast_tensors(x1, x2)]
    norms = [torch.linalg.vector_norm(x, 2, dim, keepdim=True).clamp_min(eps) for x in pair]
    one, other = (x / norm for x, norm in zip(pair, norms, strict=True))
    return (one * other).sum(dim)


def _rrelu(
    x: Any, noise: Any, lower: float, upper: float, training: bool = False, generator: Any = None
) -> tuple[Any, Any]:
    """Below 0 times a random number, of which backward reads the noise."""
    if not training:
        return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise
    factors = torch.rand_like(x) * (upper - lower) + lower
    noise = torch.where(x <= 0, factors, torch.ones_like(x))
    return x * noise, noise


def _rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """PyTorch's own changes the mean in place, so that all would have to be traced three times."""
    if x.dtype not in (torch.float32, torch.float64):
        return torch.rms_norm(x, shape, weight, eps)
    axes = list(range(x.dim() - len(shape), x.dim()))
    least = torch.finfo(x.dtype).eps if eps is None else eps
    scaled = x * torch.rsqrt(x.pow(2).mean(axes, keepdim=True).add(least))
    return scaled if weight is None else scaled * weight


def _copied_view(view: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """What a view gives, copied: PyTorch's own, which functionalization calls, takes no open sizes.

    Where all sizes are known it stays as it is.
    """
    if all(isinstance(size, int) for size in x.shape):
        return NotImplemented
    found = view(x, *args, **kwargs)
    return found.clone() if isinstance(found, torch.Tensor) else [part.clone() for part in found]


def _batch_norm(
    x: Any, w: Any, b: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    """PyTorch's own changes the statistics without saying so."""
    ops = torch.ops.aten
    if mean is None:
        return ops._native_batch_norm_legit.no_stats(x, w, b, training, momentum, eps)
    if not training:
        return ops._native_batch_norm_legit_no_training(x, w, b, mean, var, momentum, eps)
    functional = ops._native_batch_norm_legit_functional
    *normalised, new_mean, new_var = functional(x, w, b, mean, var, training, momentum, eps)
    mean.copy_(new_mean)
    var.copy_(new_var)
    return tuple(normalised)


_IN_PARTS = {operator: function for function, operator in CELLS.items()}
"""Cells whose products alone are computed in 16 bits under autocast."""


_OWN: dict[Any, Any] = {
    torch.nn.functional.one_hot: _one_hot,
    torch.nn.functional.cosine_similarity: _cosine_similarity,
    torch.rms_norm: _rms_norm,
    torch.nn.functional.rms_norm: _rms_norm,
}
"""Functions that PyTorch takes apart before decompositions are asked for."""


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    """In one piece, functionalization would fix the sizes of x.

    A sum of 16 bits is rounded once, as it is of rows.
    """
    product = torch.nn.functional.linear(x, weight)
    if bias is None:
        return product
    if product.dtype.itemsize < 4:
        rows = torch.nn.functional.linear(x.flatten(0, -2), weight, bias)
        return rows.view(product.shape)
    return product + bias


class _Whole(Interpreter):
    """Recurrent layers become one operator each; open sizes stay open."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        kind = recurrent_kind(target)
        if kind is not None:
            return call_whole(kind, *args, **kwargs)
        if target in _IN_PARTS and torch.is_autocast_enabled(args[0].device.type):
            target = _IN_PARTS[target]
        target = _OWN.get(target, target)
        if target is torch.ops.higher_order.scan:
            args = (_Whole(args[0]).run, *args[1:])
        if target is torch.nn.functional.linear and len(args) == 3 and args[0].dim() > 2:
            return _linear(*args)
        if target is autograd_function_apply:
            return with_graphs(lambda part, *operands: _Whole(part).run(*operands), *args, **kwargs)
        return super().call_function(target, args, kwargs)


def _call_instead(module: GraphModule) -> None:
    """Keep cells whole; let `x.data` be seen to share the memory of x, changes be operators' that
    functionalization knows, and constants be copies."""
    for part in graphs_of(module):
        for function, replacement in {**CELLS, **_INSTEAD}.items():
            for node in list(part.graph.find_nodes(op="call_function", target=function)):
                node.target = replacement
        for node in list(part.graph.nodes):
            if node.op == "call_method" and node.target == "fill_diagonal_":
                node.op, node.target = "call_function", _fill_diagonal_
            if node.target in _WRITTEN_DOWN:
                with part.graph.inserting_after(node):
                    copy = part.graph.call_method("clone", (node,))
                copy.meta = dict(node.meta)
                node.replace_all_uses_with(copy, lambda user, copy=copy: user is not copy)
        part.recompile()


def _fill_diagonal_(x: Any, fill_value: Any, wrap: bool = False) -> Any:
    """The method, which functionalization does not take, of a matrix."""
    if wrap or x.dim() != 2:
        return x.fill_diagonal_(fill_value, wrap)
    x.diagonal().fill_(fill_value)
    return x


_WRITTEN_DOWN = (torch.tensor, torch.Tensor.new_tensor, "new_tensor")
"""They detach what they make: functionalization would detach what is written there later, too."""

_INSTEAD: dict[Any, Any] = {
    torch._C._autograd._get_data_attr: torch.Tensor.detach,  # pyright: ignore
    operator.iand: torch.Tensor.bitwise_and_,
    operator.ior: torch.Tensor.bitwise_or_,
    operator.ixor: torch.Tensor.bitwise_xor_,
    operator.ilshift: torch.Tensor.bitwise_left_shift_,
    operator.irshift: torch.Tensor.bitwise_right_shift_,
}
"""Functionalization takes none of `&=` and its like as Python calls them."""
_DETACHING = ("detach", torch.detach, torch.Tensor.detach, torch.ops.aten.detach.default)
_FORGOTTEN = {
    "inference_mode": ("torch.inference_mode() is not supported here", "x.detach()"),
    "requires_grad_": ("requires_grad_() is not supported here", None),
    "register_hook": ("hooks within compiled code are not supported", None),
    "bw_hooks": ("hooks within compiled code are not supported", None),
    "autograd.grad": ("torch.autograd.grad is not supported here", None),
}
"""Parts of the names of calls whose effect on gradients a trace would not show."""


def _refuse_forgotten(module: GraphModule) -> None:
    for part in graphs_of(module):
        for node in part.graph.nodes:
            if is_transform(node):
                continue
            reason = next((r for word, r in _FORGOTTEN.items() if word in _called(node)), None)
            if node.target is tag_activation_checkpoint and node.kwargs.get("use_reentrant", True):
                reason = "a checkpoint with use_reentrant is not supported", "use_reentrant=False"
            if reason is not None:
                placed = node if node.meta.get("stack_trace") else node.next
                what, hint = reason
                refuse(location(placed), what, hint)


def without_checkpoints(module: GraphModule) -> None:
    """Let checkpointed parts be called as others are, in the graph and those within it.

    What backward keeps is not for a graph to say, and PyTorch exports no such call within a loop.

    Raises:
        CompileError: something acts on gradients.
    """
    _refuse_forgotten(module)
    for part in graphs_of(module):
        for node in part.graph.find_nodes(op="call_function", target=tag_activation_checkpoint):
            with part.graph.inserting_before(node):
                held, *args = node.args
                call = part.graph.call_module(held.target, tuple(args))
            call.meta = dict(node.meta)
            node.replace_all_uses_with(call)
            part.graph.erase_node(node)
        part.recompile()


def _called(node: Node) -> str:
    """The name of what a node calls, with its module."""
    target: Any = node.target
    if node.op != "call_function":
        return target if node.op == "call_method" else ""
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"


def _has_changes(module: GraphModule) -> bool:
    """Whether something is changed in place."""
    targets = (node.target for part in graphs_of(module) for node in part.graph.nodes)
    return any(isinstance(t, torch._ops.OpOverload) and t._schema.is_mutable for t in targets)


def _refuse_changes(module: GraphModule) -> None:
    """What was changed in place has become a copy to an input, at the end."""
    inputs = module.graph.find_nodes(op="placeholder")
    copies = module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    found = [node for node in copies if node.args[0] in inputs]
    if found:
        what = "a tensor that is given from outside is changed in place"
        error = KeepsTensors(location(found[0].args[1]), what, "return it as part of the state")
        error.changed = [inputs.index(node.args[0]) for node in found]
        raise error
