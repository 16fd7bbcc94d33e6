# pyright: basic, reportMissingImports=false
"""A module whose forward is compiled, for each mode that its parts are called in."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import eq
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument
from torch.utils import _pytree as pytree

from rnncc.errors import CompileError
from rnncc.frontends.torch.answers import Answers
from rnncc.frontends.torch.patches import ALONE
from rnncc.frontends.torch.programs.exported import Exported, import_exported
from rnncc.frontends.torch.programs.signature import held_tensor
from rnncc.garbage import only_among_new_objects
from rnncc.records import record
from rnncc.torch.autograd import apply, check_mode
from rnncc.torch.devices import check_tensor, common_device
from rnncc.torch.exports import exported
from rnncc.torch.nets import TorchNet
from rnncc.torch.objects.held_numbers import HeldNumbers
from rnncc.torch.objects.parameters import parameter_of
from rnncc.torch.objects.parts import Parts
from rnncc.torch.objects.places import is_alike
from rnncc.torch.objects.settings import Settings, copied
from rnncc.torch.transforms import outside_of_transforms

MOST_FORMS = 8
"""Of a module in one mode, for other settings; each is compiled."""


@record
class Example:
    """How a module was compiled: what `compile` was given."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any
    frozen: bool
    precision: str


class CompiledModule(torch.nn.Module):
    """A module whose forward is compiled; its parameters are those of the one it came from.

    It is compiled once for each mode of its parts and for other settings, and anew when it consists
    of other parts.

    Attributes:
        module: the one it came from.
    """

    def __init__(self, module: torch.nn.Module, example: Example) -> None:
        super().__init__()
        self.module = module
        self.training = module.training  # its parts may be in other modes
        self._example: Example | None = example
        self._frozen = example.frozen
        self._parts = Parts(module)
        self._forms = dict[tuple[bool, ...], list[_Form]]()
        self.form()

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        """Another module with a copy of the one it came from; the code is the same."""
        copied = type(self).__new__(type(self))
        memo |= {id(self): copied, id(self._example): self._example}
        copied.__dict__ = copy.deepcopy(self.__dict__, memo)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_example": None}  # its dynamic shapes may hold code

    def prepare(self, train: bool) -> None:
        """Compile now for calls with gradients, or for those without, where the example was."""
        self.form().prepare(train)

    def form(self, *call: Any) -> _Form:
        """The module, compiled as it is now.

        Args:
            call: the arguments of a call, and those by name. A module whose parts have changed,
                as by `module.double()`, is compiled for their types.
        """
        if not (self._frozen or self._parts.are_of(self.module)):
            self._parts, self._forms = Parts(self.module), {}
        if call and self._example is not None and not any(self._forms.values()):
            self._example = _with_types_of(call, self._example)
        forms = self._forms.setdefault(() if self._frozen else self._parts.modes(), [])
        changed = None
        for form in forms:
            changed = None if self._frozen else form.settings.changed()
            if changed is None:
                return form
        return self._made(forms, changed)

    def _made(self, forms: list[_Form], changed: str | None) -> _Form:
        if self._example is None:
            what = "its parts, their modes or settings are others than where it was compiled and "
            raise CompileError(
                type(self.module).__name__, what + "pickled", "compile the module again"
            )
        with outside_of_transforms(), only_among_new_objects():
            form = _Form(self.module, self._example)
        forms.insert(0, form)
        if len(forms) > MOST_FORMS:
            forms.pop()
            what = f"{type(self.module).__name__} is compiled for each value of {changed}"
            warnings.warn(f"{what}; as a buffer, or as an argument, it is read", stacklevel=4)
        return form

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        return self.form(args, kwargs).run(type(self.module).__name__, args, kwargs)


def _with_types_of(call: tuple[Any, ...], example: Example) -> Example:
    """An example whose tensors are of the types that a call has, where those are floats too."""
    own, spec = pytree.tree_flatten((example.args, example.kwargs))
    leaves, spec_of_call = pytree.tree_flatten(call)
    if spec != spec_of_call:
        return example  # which is refused later
    args, kwargs = pytree.tree_unflatten(list(map(_of_type, own, leaves)), spec)
    return replace(example, args=args, kwargs=kwargs)


def _of_type(x: Any, like: Any) -> Any:
    floats = all(isinstance(t, torch.Tensor) and t.dtype.is_floating_point for t in (x, like))
    return x.to(like.dtype) if floats else x


class _Form:
    """A module, compiled as it is at one moment.

    Attributes:
        net: what it computes.
        settings: what else its code reads, and what that was.
    """

    def __init__(self, module: torch.nn.Module, example: Example) -> None:
        held, self._frozen = HeldNumbers(module), example.frozen
        with ALONE:
            self.settings, graph, self.net = held.read(
                lambda: _read(module, example), lambda read: read[2].changed
            )
        self.settings.keep(held.places())
        self._code = TorchNet.of(self.net.program, self.net.dtypes, example.precision)
        self._owners = [_owner(module, graph, target) for target in self.net.held]
        self._device, self._follow = _devices(graph, self._owners)
        self._changed = [_owner(module, graph, target) for target in self.net.changed]
        self._changing = [target in self.net.changed for target in self.net.held]
        self._in, self._out = graph.call_spec.in_spec, graph.call_spec.out_spec
        self._arguments = _arguments(graph)
        self._outputs = [output.name for output in self._code.outputs]

    def __deepcopy__(self, memo: dict[int, Any]) -> _Form:
        """For a copy of the module; the code is the same."""
        copied = type(self).__new__(type(self))
        shared = self.net, self._code, self._arguments, self._in, self._out
        memo |= {id(self): copied, **{id(part): part for part in shared}}
        copied.__dict__ = copy.deepcopy(self.__dict__, memo)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        specs = pickle.dumps((self._in, self._out))
        return {**self.__dict__, "net": replace(self.net, tensors=()), "_in": specs, "_out": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch's, of a part of its own
            own = dict(zip(("_in", "_out"), pickle.loads(state["_in"]), strict=True))
        self.__dict__ = {**state, **own}

    def prepare(self, train: bool) -> None:
        """Compile now, where the example was."""
        self._code.code.on(self._device).prepare(train)

    def run(self, module: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the module computes, whose class has this name."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in:
            raise CompileError("", f"called with {spec}, compiled for {self._in}")
        pairs = zip(self._arguments, leaves, strict=True)
        passed = [leaf for argument, leaf in pairs if _is_tensor(argument, leaf)]
        self._check_apart(passed)
        tensors = self._together([*passed, *self._held()])
        if self._frozen and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            raise CompileError("", "a frozen module has no gradients", "torch.no_grad()")
        self._check_buffers(module, tensors)
        check_mode(tensors[0].device if tensors else self._device)
        named = dict(zip(self._outputs, apply(self._code, tensors), strict=True))
        with torch.no_grad():
            for (owner, name), new in zip(self._changed, named.values(), strict=False):
                getattr(owner, name).copy_(new)
        results = [named[r] if isinstance(r, str) else r for r in self.net.results]
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

    def _check_apart(self, passed: Sequence[torch.Tensor]) -> None:
        """Refuse arguments with the memory of a buffer that changes: code may read them later."""
        memories = {_memory(getattr(*place)) for place in self._changed} - {0}
        if memories and not memories.isdisjoint(map(_memory, passed)):
            what = "an argument shares memory with a buffer that the module changes"
            raise CompileError("", what, "give a copy, clone()")

    def _check_buffers(self, module: str, tensors: Sequence[torch.Tensor]) -> None:
        """Refuse what PyTorch would keep the graph of, for the gradients of later calls."""
        if not torch.is_grad_enabled() or not self._changed:
            return
        pairs = zip(self._code.inputs, tensors, strict=False)  # a seed may come last
        trained = {name for name, x in pairs if x.requires_grad}
        for target, sources in zip(self.net.changed, self.net.sources, strict=True):
            if sources & trained:
                what = f"buffer {target} is given a value that has gradients, which would be lost"
                raise CompileError(module, what, "detach() the value")


def _read(module: torch.nn.Module, example: Example) -> tuple[Settings, ExportedProgram, Exported]:
    answers = Answers(module, None if example.frozen else torch.is_grad_enabled())
    settings = Settings(module, answers.asked)
    own = example.args, example.kwargs, example.dynamic_shapes
    with settings.exporting(module):
        graph, names = exported(module, *own, not example.frozen, answers)
    return settings, graph, import_exported(graph, names=names, packed=example.frozen)


def _memory(x: torch.Tensor) -> int:
    """Where a tensor's memory begins; 0 where nothing knows."""
    return 0 if is_functorch_wrapped_tensor(x) else x.untyped_storage().data_ptr()


def _owner(module: torch.nn.Module, exported: ExportedProgram, target: str) -> tuple[Any, str]:
    """The module that has a tensor, and the tensor's name there."""
    path, _, name = target.rpartition(".")
    try:
        owner = module.get_submodule(path)
        getattr(owner, name)
    except AttributeError:  # a tensor that the module's code closes over
        return _Constant(parameter_of(held_tensor(exported, target))), "value"
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
    alike = is_alike if isinstance(value, float | complex) else eq
    if type(value) is not type(fixed) or not alike(value, fixed):
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

    def __deepcopy__(self, memo: dict[int, Any]) -> _Constant:
        """For a copy of the module, which reads what was not copied along where it is."""
        return _Constant(copied(self.value, memo))

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
