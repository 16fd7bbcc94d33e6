# pyright: basic, reportMissingImports=false
"""`compile` and `build`: modules of PyTorch, by way of `torch.export`."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import Any

import torch
import torch._functorch.apis
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument
from torch.utils import _pytree as pytree

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.torch.exported import Exported, held_tensor, import_exported
from rnncc.frontends.torch.node_context import EXPORTED_TRANSFORMS, line_of
from rnncc.frontends.torch.recurrent_op import kept_whole
from rnncc.frontends.torch.trace import refused_by
from rnncc.frontends.torch.watch import Questions, watching
from rnncc.packaging.compiled import Artifacts
from rnncc.torch.assigned import refusing_state
from rnncc.torch.autograd import apply, check_mode
from rnncc.torch.devices import check_tensor, common_device
from rnncc.torch.nets import TorchNet, check_precision
from rnncc.torch.versions import exporting, quiet


def compile(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    train: bool | None = None,
    frozen: bool = False,
    precision: str = "fp32",
) -> CompiledModule:
    """Compile a module: whole sequences or one step, for inference and training.

    Args:
        module: compiled as it is at that moment, in `train()` or `eval()` mode.
        args, kwargs: an example of what it is called with; sizes stay as they are in it, but for
            dynamic ones. The module and it may be on a GPU; so may what it is called with later.
        dynamic_shapes: as for `torch.export.export`: {"x": {0: Dim("T"), 1: Dim("N")}}.
        train: compile at once for calls with gradients, or for those without; by default each kind
            is compiled when it is first called for.
        frozen: whether the parameters' values are packed into the code, for inference alone;
            else they are read where the module has them, at every call.
        precision: fp32, or bf16 on a GPU, whose products are of rounded values then, those of
            gradients too; of a frozen module also int8, and on a CPU (docs/precision.md).

    Returns:
        A module with the parameters of the given one, to be called as that is.

    Raises:
        CompileError: the module cannot be exported, or does what is not supported.
    """
    if train and frozen:
        raise CompileError("", "a frozen module has no gradients", "train=False")
    check_precision(precision, frozen)
    exported, names = _exported(module, args, kwargs, dynamic_shapes, not frozen)
    net = import_exported(exported, names=names, packed=frozen)
    compiled = CompiledModule(module, exported, net, frozen, precision)
    if train is not None:
        compiled.prepare(train)
    return compiled


def build(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    out: str | Path = ".",
    name: str = "net",
    products: Iterable[str] = ("so", "h", "py"),
    **options: Any,
) -> Artifacts:
    """Compile a module into files that need neither PyTorch nor rnncc.

    Args:
        module, args, kwargs, dynamic_shapes: as for `compile`.
        out, name, products, options: as for `rnncc.build`.

    Raises:
        CompileError: as for `compile` and `rnncc.build`.
    """
    train = bool(options.get("train"))
    exported, names = _exported(module, args, kwargs, dynamic_shapes, train)
    program = import_exported(exported, name, names, packed=True).program
    return rnncc.build(program, out=out, name=name, products=products, **options)


class CompiledModule(torch.nn.Module):
    """A module whose forward is compiled; its parameters are those of the one it came from.

    Attributes:
        module: the one it came from.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        exported: ExportedProgram,
        net: Exported,
        frozen: bool,
        precision: str,
    ) -> None:
        super().__init__()
        self.module = module
        self.training = module.training  # its parts may be in other modes
        self._frozen, self._net = frozen, net
        self._code = TorchNet.of(net.program, net.dtypes, precision)
        self._owners = [_owner(module, exported, target) for target in net.held]
        self._device, self._follow = _devices(exported, self._owners)
        self._changed = [_owner(module, exported, target) for target in net.changed]
        self._changing = [target in net.changed for target in net.held]
        self._in, self._out = exported.call_spec.in_spec, exported.call_spec.out_spec
        self._arguments = _arguments(exported)
        self._outputs = [output.name for output in self._code.outputs]

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        """Another module with a copy of the one it came from; the code is the same."""
        copied = type(self).__new__(type(self))
        shared = self._net, self._code, self._arguments, self._in, self._out
        memo |= {id(self): copied, **{id(part): part for part in shared}}
        copied.__dict__ = copy.deepcopy(self.__dict__, memo)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        specs = pickle.dumps((self._in, self._out))
        kept = {"_net": replace(self._net, tensors=()), "_in": specs, "_out": None}
        return {**super().__getstate__(), **kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch's, of a part of its own
            own = dict(zip(("_in", "_out"), pickle.loads(state["_in"]), strict=True))
        super().__setstate__({**state, **own})

    def prepare(self, train: bool) -> None:
        """Compile now for calls with gradients, or for those without, where the example was."""
        self._code.code.on(self._device).prepare(train)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in:
            raise CompileError("", f"called with {spec}, compiled for {self._in}")
        pairs = zip(self._arguments, leaves, strict=True)
        passed = [leaf for argument, leaf in pairs if _is_tensor(argument, leaf)]
        tensors = self._together([*passed, *self._held()])
        if self._frozen and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            raise CompileError("", "a frozen module has no gradients", "torch.no_grad()")
        self._check_buffers(tensors)
        check_mode(tensors[0].device if tensors else self._device)
        named = dict(zip(self._outputs, apply(self._code, tensors), strict=True))
        with torch.no_grad():
            for (owner, name), new in zip(self._changed, named.values(), strict=False):
                getattr(owner, name).copy_(new)
        results = [named[r] if isinstance(r, str) else r for r in self._net.results]
        assert self._out is not None
        return pytree.tree_unflatten(results, self._out)

    def _held(self) -> list[torch.Tensor]:
        """The module's tensors; backward finds copies of those that this call changes."""
        tensors = [getattr(owner, name) for owner, name in self._owners]
        if not torch.is_grad_enabled():
            return tensors
        pairs = zip(tensors, self._changing, strict=True)
        return [x.clone() if changes else x for x, changes in pairs]

    def _together(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors on one device, where some follow the others."""
        for tensor in tensors:
            check_tensor(tensor)
        rows = list(zip(self._code.inputs, tensors, self._follow, strict=False))
        leading = [(name, x) for name, x, follows in rows if not follows]
        device = common_device([name for name, _ in leading], [x for _, x in leading])
        return [follows(x, device) if follows else x for _, x, follows in rows]

    def _check_buffers(self, tensors: Sequence[torch.Tensor]) -> None:
        """Refuse what PyTorch would keep the graph of, for the gradients of later calls."""
        if not torch.is_grad_enabled() or not self._changed:
            return
        trained = {n for n, x in zip(self._code.inputs, tensors, strict=True) if x.requires_grad}
        for target, sources in zip(self._net.changed, self._net.sources, strict=True):
            if sources & trained:
                what = f"buffer {target} is given a value that has gradients, which would be lost"
                raise CompileError(type(self.module).__name__, what, "detach() the value")


def export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """`torch.export.export`, but recurrent layers stay whole: for `rnncc.compile` and `build`.

    Raises:
        CompileError: the module cannot be exported.
    """
    return _export(module, args, kwargs, dynamic_shapes, True)


def _export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    shapes: Any,
    differentiable: bool,
) -> ExportedProgram:
    name, keywords = type(module).__name__, dict(kwargs or {})
    leaves = pytree.tree_leaves((args, keywords, *module.parameters()))
    for device in {x.device for x in leaves if isinstance(x, torch.Tensor)}:
        check_mode(device)
    with (
        refusing_state(module, args, keywords),
        _without_transforms(name),
        watching(lambda: differentiable and torch.is_grad_enabled()),
        quiet(),
        refused_by(name, "torch.export"),
        exporting(),
        Questions(),
        kept_whole(),
        torch.enable_grad(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # nn.LSTM and its like, on their lists of weights
        return torch.export.export(module, args, keywords, dynamic_shapes=shapes)


_TRANSFORMS = [
    Path(torch._functorch.apis.__file__).parent / name for name in ("apis.py", "vmap.py")
]
"""Files of PyTorch that call a function that is to be transformed."""


@contextmanager
def _without_transforms(name: str) -> Generator[None]:
    """Refuse torch.func: PyTorch exports none, and raises errors of its own parts."""
    try:
        yield
    except CompileError as error:
        cause: BaseException | None = error
        while cause is not None:
            files = {Path(frame.filename) for frame in extract_tb(cause.__traceback__)}
            if not files.isdisjoint(_TRANSFORMS):
                raise CompileError(line_of(cause, name), *EXPORTED_TRANSFORMS) from error
            cause = cause.__context__
        raise


def _exported(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    shapes: Any,
    differentiable: bool,
) -> tuple[ExportedProgram, dict[str, str]]:
    """The program, and what the user calls the symbols in it."""
    exported = _export(module, args, kwargs, shapes, differentiable)
    arguments = inspect.signature(module.forward).bind(*args, **(kwargs or {})).arguments
    return exported, _symbol_names(exported, arguments, shapes)


def _symbol_names(
    exported: ExportedProgram, arguments: Mapping[str, Any], shapes: Any
) -> dict[str, str]:
    """What the user calls the symbols, from the place of each `Dim`."""
    names = dict[str, str]()
    if not shapes:
        return names
    places = exported.graph.find_nodes(op="placeholder")
    specs = exported.graph_signature.input_specs
    users = {spec.arg.name for spec in specs if spec.kind == InputKind.USER_INPUT}
    nodes = iter([node for node in places if node.name in users])
    for number, (name, value) in enumerate(arguments.items()):
        spec = shapes.get(name) if isinstance(shapes, dict) else shapes[number]
        _name(value, spec, nodes, names)
    return names


def _name(value: Any, spec: Any, nodes: Any, names: dict[str, str]) -> None:
    if isinstance(value, (list, tuple)):
        for part, own in zip(value, spec or [None] * len(value), strict=True):
            _name(part, own, nodes, names)
        return
    if isinstance(value, dict):
        for key, part in value.items():
            _name(part, (spec or {}).get(key), nodes, names)
        return
    shape = getattr(next(nodes).meta["val"], "shape", ())
    listed = spec if isinstance(spec, (list, tuple)) else ()
    for axis, dim in spec.items() if isinstance(spec, dict) else enumerate(listed):
        name = str(getattr(dim, "__name__", ""))
        if name.isidentifier() and axis < len(shape):
            names.setdefault(str(shape[axis]), name)


def _owner(module: torch.nn.Module, exported: ExportedProgram, target: str) -> tuple[Any, str]:
    """The module that has a tensor, and the tensor's name there."""
    path, _, name = target.rpartition(".")
    try:
        owner = module.get_submodule(path)
        getattr(owner, name)
    except AttributeError:  # a tensor that the module's code closes over
        return _Constant(held_tensor(exported, target)), "value"
    return owner, name


_Argument = TensorArgument | ConstantArgument


def _arguments(exported: ExportedProgram) -> list[_Argument]:
    """What a call gives: tensors, and what is in the code as the example had it."""
    specs = exported.graph_signature.input_specs
    arguments = [spec.arg for spec in specs if spec.kind == InputKind.USER_INPUT]
    return [argument for argument in arguments if isinstance(argument, _Argument)]


def _is_tensor(argument: _Argument, value: Any) -> bool:
    """Whether a call gives a tensor here; refuses what the code was not made for."""
    if isinstance(argument, TensorArgument):
        if not isinstance(value, torch.Tensor):
            what = f"is {type(value).__name__}, compiled for a tensor"
            raise CompileError(argument.name, what)
        return True
    fixed = argument.value
    if type(value) is not type(fixed) or value != fixed:
        what = f"compiled for {fixed!r}, called with {value!r}"
        raise CompileError(argument.name, what, "compile it for each value, or give tensors")
    return False


_Follow = Callable[[torch.Tensor, torch.device], torch.Tensor]


def _devices(
    exported: ExportedProgram, owners: Iterable[tuple[Any, str]]
) -> tuple[torch.device, list[_Follow | None]]:
    """Where the example is, and which inputs and tensors of owners follow the others, and how.

    These are the constants of the module's code, and what the example had on the CPU beside others
    on a GPU: PyTorch wants the lengths of packed sequences there.
    """
    nodes, users = exported.graph.find_nodes(op="placeholder"), exported.graph_signature.user_inputs
    values = {node.name: node.meta.get("val") for node in nodes}
    devices = {name: x.device for name, x in values.items() if isinstance(x, torch.Tensor)}
    gpu = next((device for device in devices.values() if device.type != "cpu"), None)
    copied_flags = [
        gpu is not None and devices[n].type == "cpu" for n in map(str, users) if n in devices
    ]
    follow: list[_Follow | None] = [torch.Tensor.to if copied else None for copied in copied_flags]
    follow += [owner.on if isinstance(owner, _Constant) else None for owner, _ in owners]
    return gpu or torch.device("cpu"), follow


class _Constant:
    """The owner of such a tensor."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value
        self._copies: dict[torch.device, tuple[int, torch.Tensor]] = {}

    def on(self, value: torch.Tensor, device: torch.device) -> torch.Tensor:
        """The tensor on a device: what was copied once is not copied again, unless it changed."""
        if value.device == device or value.requires_grad or value.is_inference():
            return value.to(device)
        version, copy = self._copies.get(device, (-1, value))
        if version != value._version:
            with torch.inference_mode(False):  # also for calls outside of it
                copy = value.to(device)
            self._copies[device] = value._version, copy
        return copy
