# pyright: basic, reportMissingImports=false
"""From a graph of PyTorch calls to one of aten operators without side effects."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch._decomp
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from rnncc.errors import CompileError
from rnncc.frontends.torch.aliases import name_aliases
from rnncc.frontends.torch.branches.merged import refuse_different_numbers
from rnncc.frontends.torch.branches.regions import settle_branches
from rnncc.frontends.torch.decompositions import decompositions
from rnncc.frontends.torch.detached import refuse_hidden_changes
from rnncc.frontends.torch.graphs import graphs_of, has_transforms
from rnncc.frontends.torch.inner_transforms import without_transforms
from rnncc.frontends.torch.interpreted import Whole
from rnncc.frontends.torch.logs import logged_errors
from rnncc.frontends.torch.node_context import (
    BRANCH,
    BY_MASK,
    BY_SCAN,
    BY_STACK,
    BY_TENSORS,
    COUNTED,
    FIXED,
    NEEDED_INTEGER,
    OF_COUNT,
    OF_FLAG,
    OF_FLOAT,
    OF_INTEGER,
    TAKEN,
    line_of,
    location,
)
from rnncc.frontends.torch.numbers.known_constants import known_by_fakes_alone
from rnncc.frontends.torch.prepared import call_instead, refuse_forgotten
from rnncc.frontends.torch.switches import without_switches
from rnncc.frontends.torch.unrolled.functional import changed_by
from rnncc.frontends.torch.watching.reading import watching

_DETACHING = ("detach", torch.detach, torch.Tensor.detach, torch.ops.aten.detach.default)


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
    settle_branches(module)
    without_switches(module)
    refuse_forgotten(module)
    if has_transforms(module):
        module = without_transforms(module, lambda run: _trace_of(run, examples, mode, graded=True))
    call_instead(module)
    name_aliases(module)
    nodes = [node for part in graphs_of(module) for node in part.graph.nodes]
    refuse_different_numbers(nodes)
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
    settle_branches(traced)
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
        return Whole(module).run(*tensors)

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
    kind: Any = "fake" if mode is None else "real"
    inside = nullcontext() if mode is None else mode
    differentiable = torch.is_grad_enabled()
    with (
        watching(lambda: differentiable),
        refused_by("", "PyTorch's tracing"),
        inside,
        _as_of(mode),
        torch.set_grad_enabled(graded and differentiable),
        fx_traceback.preserve_node_meta(),
        known_by_fakes_alone(),
        _leaving_sizes_open(examples),
    ):
        return make_fx(function, decompositions(), kind)(*examples)


def _as_of(mode: FakeTensorMode | None) -> AbstractContextManager[Any]:
    """Let operators that trace what they are given, as `scan` does, do so in that mode: PyTorch
    2.11 takes the one in which TorchDynamo reads, if it does, for that of all tensors."""
    known = None if mode is None else TracingContext.try_get()
    return nullcontext() if known is None or known.fake_mode is mode else tracing(None)


def _leaving_sizes_open(examples: Sequence[Any]) -> AbstractContextManager[Any]:
    """Take operators apart by PyTorch's functions in Python where a size is open: those in C++ ask
    for sizes as numbers."""
    shapes = [x.shape if isinstance(x, torch.Tensor) else (x,) for x in examples]
    is_open = any(isinstance(size, torch.SymInt) for shape in shapes for size in shape)
    return enable_python_dispatcher() if is_open else nullcontext()


@contextmanager
def refused_by(place: str, name: str) -> Generator[None]:
    """What a part of PyTorch raises, or the user's code within it, as `CompileError`.

    Args:
        place: what is read.
        name: the part of PyTorch.
    """
    try:
        with logged_errors("torch._subclasses.fake_tensor"):
            yield
    except CompileError:
        raise
    except Exception as error:
        line, reason, hint = line_of(error, place), str(error).strip().split("\n\n")[0], None
        if isinstance(error, GuardOnDataDependentSymNode):
            if OF_COUNT.search(str(error)):
                raise CompileError(line, COUNTED, BY_MASK) from error
            if OF_INTEGER.search(reason):
                hint = f"{BY_STACK}; {BY_TENSORS}"
                raise CompileError(line, NEEDED_INTEGER, hint) from error
            if OF_FLAG.search(reason):
                raise CompileError(line, BRANCH, "torch.where") from error
            if OF_FLOAT.search(reason):
                raise CompileError(line, TAKEN, "torch.exp(x), not math.exp(x.item())") from error
            hint = BY_TENSORS
        if fixed := FIXED.search(reason):
            size, value = fixed.groups()
            what = f"{size} cannot be open: a loop in Python, or a tensor of that size, needs it as"
            raise CompileError(line, f"{what} a number, {value} in the example", BY_SCAN) from error
        raise CompileError(line, f"{name}: {reason}", hint) from error


def _has_changes(module: GraphModule) -> bool:
    """Whether something is changed in place."""
    targets = (node.target for part in graphs_of(module) for node in part.graph.nodes)
    return any(isinstance(t, torch._ops.OpOverload) and t._schema.is_mutable for t in targets)


def _refuse_changes(module: GraphModule) -> None:
    """What was changed in place has become a copy to an input, at the end."""
    inputs = module.graph.find_nodes(op="placeholder")
    copies = module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    changes = [node for node in copies if node.args[0] in inputs]
    if changes:
        what = "a tensor that is given from outside is changed in place"
        error = KeepsTensors(location(changes[0].args[1]), what, "return it as part of the state")
        error.changed = [inputs.index(node.args[0]) for node in changes]
        raise error
