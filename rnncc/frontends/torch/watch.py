# pyright: basic, reportMissingImports=false
"""Refuses, while PyTorch reads users' code as a graph, what the graph would not show.

A graph holds the operators of a forward pass. The backward of a custom Function, a hook, or a
branch on `requires_grad` leaves no mark in it: the graph would compute other gradients, or other
outputs, than the code does.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

import torch
from torch._dynamo.exc import ObservedException, TorchRuntimeError, Unsupported, unimplemented
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import AttrSource
from torch._dynamo.trace_rules import get_torch_obj_rule_map
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.ctx_manager import InferenceModeVariable
from torch._dynamo.variables.distributed import BackwardHookVariable
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.misc import AutogradFunctionVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch.autograd.function import _SingleLevelFunction
from torch.autograd.graph import saved_tensors_hooks
from torch.fx.experimental.proxy_tensor import _make_temp_remove_mode_context_manager
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import BackwardHook

from rnncc.errors import CompileError, Location
from rnncc.frontends.torch.function_op import applied, in_order, is_once, methods_of
from rnncc.frontends.torch.site import reason_of
from rnncc.frontends.torch.switches import SWITCH

STAND_INS = ("rows", "states", "kept")
"""The names under which TorchDynamo finds tensors that stand for others (`tracing._step`)."""
_HOOKS = {"register_hook", "register_post_accumulate_grad_hook", "retain_grad"}
_STATUS = {"requires_grad", "is_leaf", "grad_fn", "grad", "_version", "is_inference"}
_CHANGES = {"requires_grad_", "requires_grad =", "data =", "backward", "detach_"}
_PYTORCH = str(Path(torch.__file__).parent) + "/"
_RNNCC = str(Path(__file__).parents[2]) + "/"
_UNREAD = (Unsupported, ObservedException, TorchRuntimeError)
"""What TorchDynamo raises where it cannot go on."""
_TRACERS = tuple(_PYTORCH + name for name in ("_", "export/", "fx/", "utils/"))
"""Where PyTorch reads users' code; what these ask of tensors is no question of users."""
_SHOWN = ("torch._higher_order_ops", "torch._library", "rnncc.torch.")
"""Modules whose Functions belong to operators, which graphs do show."""


@dataclass
class _Reading:
    """What is read.

    Attributes:
        differentiable: tells whether what is read now gets gradients.
        guarded: whether tensors that stand-ins are not are those of the real run.
        refusal: what was refused first.
        inside: whether it is what a custom Function does, where nothing gets gradients.
    """

    differentiable: Callable[[], bool]
    guarded: bool
    refusal: CompileError | None = None
    inside: bool = False


class _Readings(threading.local):
    def __init__(self) -> None:
        self.stack: list[_Reading] = []


_readings = _Readings()
_lock = threading.Lock()
_asking = 0
_MODES = {name: getattr(torch, name) for name in ("is_grad_enabled", "is_inference_mode_enabled")}
get_torch_obj_rule_map()  # TorchDynamo's own list of PyTorch's functions, as they are
_patched: list[str] = []


@contextmanager
def watching(
    differentiable: Callable[[], bool] = torch.is_grad_enabled, guarded: bool = False
) -> Generator[None]:
    """While it lasts, whatever this thread reads as a graph is watched.

    Args:
        differentiable: tells whether what is read now gets gradients; elsewhere custom Functions
            and hooks do no harm.
        guarded: whether TorchDynamo reads, and reads again when a tensor that it found changes.

    Raises:
        CompileError: something was refused; it replaces what PyTorch made of that.
    """
    with _lock:
        if not _patched:
            _patch_pytorch()
            _patch_dynamo()
            _patched.append("pytorch")
    reading = _Reading(differentiable, guarded)
    _readings.stack.append(reading)
    try:
        yield
    finally:
        _readings.stack.pop()
        if reading.refusal is not None:
            raise reading.refusal.with_traceback(None) from None


@contextmanager
def not_watching() -> Generator[None]:
    """While it lasts, this thread reads nothing: what it runs is of no matter."""
    before, _readings.stack = _readings.stack, []
    try:
        yield
    finally:
        _readings.stack = before


class Questions(TorchFunctionMode):
    """Refuses what code that runs under `torch.export` asks of tensors and does to them."""

    def __enter__(self) -> Any:
        """Ask from now on; of the modes too, which a call of the compiled code has of its own."""
        _ask_of_modes(1)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        """Stop asking."""
        super().__exit__(*error)
        _ask_of_modes(-1)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch."""
        if torch.compiler.is_dynamo_compiling():  # it reads this with the body of a PyTorch loop
            return func(*args, **(kwargs or {}))
        if torch.is_inference_mode_enabled():
            _refuse_inference(_location)
        name = _name_of(func)
        asked = name in _HOOKS | _STATUS | _CHANGES
        if asked and not _is_own_question(name, _asking_code(sys._getframe(1))):
            _check(name, lambda: _location(name))
        if name == "data":  # reading it leaves no mark in a graph
            return args[0].detach()
        return func(*args, **(kwargs or {}))


_without_questions: Any = _make_temp_remove_mode_context_manager(Questions)


@contextmanager
def unasked() -> Generator[None]:
    """While it lasts, nothing is asked: TorchDynamo would read `Questions` as the user's code."""
    with _without_questions() as removed:
        _ask_of_modes(-1 if removed else 0)
        try:
            yield
        finally:
            _ask_of_modes(1 if removed else 0)


def _ask_of_modes(change: int) -> None:
    """Count who asks; while anyone does, PyTorch's functions that tell the modes are ours."""
    global _asking
    with _lock:
        _asking += change
        for name, own in _MODES.items():
            setattr(torch, name, _asked(own) if _asking else own)


def _asked(own: Callable[[], bool]) -> Callable[[], bool]:
    @wraps(own)
    def ask() -> bool:
        frame = sys._getframe(1)
        known = not _readings.stack or _readings.stack[-1].inside
        if not known and _is_users(frame.f_code.co_filename):
            _refuse(_location(own.__name__), "is not known here", "decide it outside")
        return own()

    return ask


def _name_of(function: Any) -> str:
    """`requires_grad` for reading it, `requires_grad =` for setting it."""
    name = getattr(function, "__name__", "")
    if name in ("__get__", "__set__"):
        return function.__self__.__name__ + (" =" if name == "__set__" else "")
    return name


def _asking_code(frame: Any) -> CodeType:
    """The code that called PyTorch; other modes pass the call on."""
    passing = (_PYTORCH + "overrides.py", _PYTORCH + "_tensor.py")
    while frame.f_code.co_filename in passing or frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back
    return frame.f_code


def _is_own_question(name: str, code: CodeType) -> bool:
    """Whether PyTorch asks for itself.

    Its library takes one of two equal ways by `requires_grad`, and refuses what is no parameter.
    """
    own = code.co_filename.startswith(_PYTORCH if name == "requires_grad" else _TRACERS)
    return own or code is torch.nn.Module.register_parameter.__code__


def _check(name: str, where: Callable[[], Location]) -> None:
    if name in _STATUS:
        _refuse(where(), "what autograd knows of a tensor is not known here", "decide it outside")
    if name in _CHANGES:
        hint = "x = x.detach()" if name == "detach_" else None
        _refuse(where(), "is not supported here", hint)
    if _is_hooked():
        _refuse(where(), "hooks within compiled code are not supported", "register it outside")


def _is_differentiable() -> bool:
    return bool(_readings.stack) and _readings.stack[-1].differentiable()


def _is_hooked() -> bool:
    """Whether a hook would do anything: within a Function it might, on what that was given."""
    return bool(_readings.stack) and (_readings.stack[-1].inside or _is_differentiable())


def _refuse(where: Location, what: str, hint: str | None = None) -> NoReturn:
    error = CompileError(where, what, hint)
    for reading in _readings.stack:
        reading.refusal = reading.refusal or error
    raise error


def _refuse_inference(where: Callable[[str], Location]) -> NoReturn:
    _refuse(where("inference_mode"), "is not supported here", "torch.no_grad()")


def _is_read(function: Any, where: Callable[[str], Location]) -> bool:
    """Whether a custom Function's backward is to be read too; those of PyTorch are refused."""
    name = function.__module__
    if not _is_differentiable() or name.startswith(_SHOWN):
        return False
    if name.startswith("torch."):
        what = "the backward of a torch.autograd.Function is not supported"
        _refuse(where(function.__qualname__), what, "torch.no_grad() for inference")
    return True


@contextmanager
def _inside() -> Generator[None]:
    """Within a Function, where nothing gets gradients; what records switches does not see it."""
    _readings.stack.append(_Reading(lambda: False, _readings.stack[-1].guarded, inside=True))
    before = torch.is_grad_enabled()
    _set_gradients(False)
    try:
        yield
    finally:
        _set_gradients(before)
        _readings.stack.pop()


class _Unrecorded(TorchFunctionMode):
    """Switches of gradients, which mean nothing within a Function, leave no mark in a graph."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch."""
        if func is SWITCH:
            return _set_gradients(*args)
        return func(*args, **(kwargs or {}))


def _set_gradients(enabled: bool) -> None:
    with torch._C.DisableTorchFunction():
        SWITCH(enabled)


def _applied(function: Any, args: Any, kwargs: Any) -> Any:
    """A Function's results, with its backward read too."""
    methods: list[Any] = [name and getattr(function, name) for name in methods_of(function)]
    forward, setup_context, backward = methods
    with _inside(), _Unrecorded():
        try:
            given = in_order(function, args, kwargs)
            return applied(forward, setup_context, backward, given, is_once(function))
        except CompileError:
            raise
        except Exception as error:
            _refuse_function(function, _location, str(error) or type(error).__name__)


def _applied_in_dynamo(variable: Any, tx: Any, args: Any, kwargs: Any) -> Any:
    """The same where TorchDynamo reads, which takes our part of it for the user's."""
    function, source = variable.fn_cls, variable.source

    def built(name: str | None) -> Any:
        if name is None:
            return VariableTracker.build(tx, None)
        own = AttrSource(source, name) if source else None
        return VariableTracker.build(tx, getattr(function, name), own)

    methods = [built(name) for name in methods_of(function)]
    before = set(tx.output.graph.nodes)
    try:
        with _inside():
            given = TupleVariable(in_order(function, args, kwargs))
            once = VariableTracker.build(tx, is_once(function))
            operands = [*methods, given, once]
            made = VariableTracker.build(tx, applied).call_function(tx, operands, {})
    except _UNREAD as error:
        reason = reason_of(str(error))
        _in_dynamo(tx, lambda where: _refuse_function(function, where, reason))
    for node in tx.output.graph.find_nodes(op="call_function", target=SWITCH):
        if node not in before:  # within a Function there are no gradients to be switched on
            tx.output.graph.erase_node(node)
    return made


def _refuse_function(function: Any, where: Callable[[str], Location], reason: str) -> NoReturn:
    what = f"this torch.autograd.Function cannot be read: {reason.strip().splitlines()[0]}"
    _refuse(where(function.__qualname__), what, "torch.no_grad() for inference")


def _check_backward_hook(where: Callable[[str], Location] | None = None) -> None:
    if _is_hooked():
        place = (where or _location)("backward hook")
        _refuse(place, "hooks within compiled code are not supported", "remove it")


def _check_saved_tensors_hooks(hooks: Any) -> None:
    own = type(hooks) is not saved_tensors_hooks and type(hooks).__module__.startswith("torch.")
    if _is_hooked() and not own:  # PyTorch's own keep the gradients as they are
        _refuse(_location(type(hooks).__name__), "is not supported here")


def _location(name: str) -> Location:
    """The line of the innermost code that is neither PyTorch's nor ours."""
    frame: Any = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return Location("" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}", name)


def _is_users(file: str) -> bool:
    return not file.startswith((_PYTORCH, _RNNCC, "<eval_with_key>", "<frozen "))


def _before(owner: Any, name: str, check: Callable[..., None]) -> None:
    """Make a method check its arguments first, while this thread reads."""
    own = getattr(owner, name)

    @wraps(own)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if _readings.stack:
            check(*args)
        return own(*args, **kwargs)

    static = not isinstance(owner.__dict__[name], staticmethod)
    setattr(owner, name, checked if static else staticmethod(checked))


def _patch_pytorch() -> None:
    """Put checks into what no mode shows: Functions and hooks of modules."""
    own: Any = torch._C._FunctionBase.__dict__["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if _readings.stack and _is_read(cls, _location):
            return _applied(cls, args, kwargs)
        return own.__get__(None, cls)(*args, **kwargs)

    # not Function.apply, which calls this one: users keep that, as in `spike = Spike.apply`
    setattr(_SingleLevelFunction, "apply", classmethod(apply))  # noqa: B010
    _before(BackwardHook, "__init__", lambda *_: _check_backward_hook())
    _before(saved_tensors_hooks, "__enter__", _check_saved_tensors_hooks)


def _patch_dynamo() -> None:
    """The same where TorchDynamo takes apart, or answers, what it does not run."""

    own = AutogradFunctionVariable.call_method

    def call_method(variable: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        applies = bool(_readings.stack) and name == "apply"
        if applies and _in_dynamo(tx, lambda where: _is_read(variable.fn_cls, where)):
            return _applied_in_dynamo(variable, tx, args, kwargs)
        return own(variable, tx, name, args, kwargs)

    setattr(AutogradFunctionVariable, "call_method", call_method)  # noqa: B010

    def check_hook(tx: Any, *_: Any) -> None:
        _in_dynamo(tx, _check_backward_hook)

    def check_mode(tx: Any, *_: Any) -> None:
        _in_dynamo(tx, _refuse_inference)

    _before(BackwardHookVariable, "create", check_hook)
    _before(InferenceModeVariable, "create", check_mode)
    for method in ("var_getattr", "call_method"):
        _before(TensorVariable, method, _check_question)
    # else a hook that a module gets later would not be noticed
    empty = "EMPTY_NN_MODULE_HOOKS_DICT"
    _before(GuardBuilder, empty, lambda builder, guard: builder.SEQUENCE_LENGTH(guard))


def _check_question(variable: Any, tx: Any, name: str, *_: Any) -> None:
    if name not in _HOOKS | _STATUS | _CHANGES or name == "detach_":  # which Dynamo puts in place
        return
    if _is_own_question(name, tx.f_code) or _is_true(variable, name):
        return
    _in_dynamo(tx, lambda where: _check(name, lambda: where(name)))


def _is_true(variable: Any, name: str) -> bool:
    """Whether what Dynamo knows of a tensor is so in the run too, which guards see to.

    A stand-in needs no gradient where what it stands for may, and so it is with their results.
    """
    if name not in _STATUS or name == "_version" or not _readings.stack[-1].guarded:
        return False
    held = variable.source is not None and not is_stand_in(variable)
    return held or (name == "requires_grad" and variable.requires_grad)


def is_stand_in(variable: Any) -> bool:
    """Whether what Dynamo knows of a tensor is that it stands for others."""
    source = variable.source
    while hasattr(source, "base"):
        source = source.base
    return getattr(source, "local_name", "") in STAND_INS


def _in_dynamo(tx: Any, check: Callable[[Callable[[str], Location]], Any]) -> Any:
    """What a check says; Dynamo stops where something is refused."""

    def where(name: str) -> Location:
        frame = tx
        while frame.parent is not None and not _is_users(frame.f_code.co_filename):
            frame = frame.parent
        return Location(f"{frame.f_code.co_filename}:{frame.lineno}", name)

    try:
        return check(where)
    except CompileError as error:
        unimplemented(gb_type="rnncc", context="", explanation=str(error), hints=[])
