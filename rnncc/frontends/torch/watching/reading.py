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
from functools import wraps
from typing import Any

import torch
from torch._dynamo.trace_rules import get_torch_obj_rule_map
from torch._export.non_strict_utils import _NonStrictTorchFunctionHandler
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd.graph import saved_tensors_hooks
from torch.fx.experimental.proxy_tensor import (
    _make_temp_remove_mode_context_manager,
    get_proxy_mode,
    get_proxy_slot,
)
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import BackwardHook

from rnncc.frontends.torch.answers import Answers
from rnncc.frontends.torch.asking import ASKING
from rnncc.frontends.torch.checks import checked, expected
from rnncc.frontends.torch.fake_costs import remember_whole_operators
from rnncc.frontends.torch.node_context import PYTORCH
from rnncc.frontends.torch.numbers import counters
from rnncc.frontends.torch.numbers.taken_numbers import CALLS, note_taken
from rnncc.frontends.torch.readings import (
    CHANGES,
    HOOKS,
    STATUS,
    Reading,
    check,
    check_backward_hook,
    check_first,
    is_hooked,
    is_own_question,
    is_users,
    location,
    readings,
    refuse,
    refuse_generator,
    refuse_inference,
)
from rnncc.frontends.torch.switches import SWITCH
from rnncc.frontends.torch.watching.dynamo import patch_dynamo
from rnncc.frontends.torch.watching.functions import watch_functions
from rnncc.frontends.torch.watching.numbers import TEXTS, asks_for_key, check_text

_lock = threading.Lock()
_asking = 0
_MODES = {name: getattr(torch, name) for name in ("is_grad_enabled", "is_inference_mode_enabled")}
_HASH = torch.Tensor.__hash__
get_torch_obj_rule_map()  # TorchDynamo's own list of PyTorch's functions, as they are
_patched: list[str] = []


@contextmanager
def watching(
    differentiable: Callable[[], bool] = torch.is_grad_enabled,
    guarded: bool = False,
    answers: Answers | None = None,
) -> Generator[None]:
    """While it lasts, whatever this thread reads as a graph is watched.

    Args:
        differentiable: tells whether what is read now gets gradients; elsewhere custom Functions
            and hooks do no harm.
        guarded: whether TorchDynamo reads, and reads again when a tensor that it found changes.
        answers: what may be asked of gradients.

    Raises:
        CompileError: something was refused; it replaces what PyTorch made of that.
    """
    with _lock:
        if not _patched:
            _patch_pytorch()
            patch_dynamo()
            remember_whole_operators()
            _patched.append("pytorch")
    reading = Reading(differentiable, guarded, answers=answers)
    readings.stack.append(reading)
    watch_functions(1)
    try:
        yield
    finally:
        watch_functions(-1)
        readings.stack.pop()
        if reading.refusal is not None:
            raise reading.refusal.with_traceback(None) from None


def prove_watching() -> None:
    """See that this PyTorch lets the backward of a Function be read, which else would be lost.

    Transforms of torch.func, within which `apply` is another, are not asked.

    Raises:
        RuntimeError: it does not.
    """
    if torch._C._are_functorch_transforms_active():
        return
    read = list[bool]()

    class Probe(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            read.append(True)
            return grad

    apply = Probe.apply
    with FakeTensorMode(), watching(lambda: True):
        apply(torch.zeros(1))
    if not read:
        raise RuntimeError("the backward of a torch.autograd.Function cannot be read")


@contextmanager
def not_watching() -> Generator[None]:
    """While it lasts, this thread reads nothing: what it runs is of no matter."""
    before, readings.stack = readings.stack, []
    try:
        yield
    finally:
        readings.stack = before


class Questions(TorchFunctionMode):
    """Refuses what code that runs under `torch.export` asks of tensors and does to them.

    Attributes:
        fakes: the mode of the tensors that code computed with, if it has begun to.
    """

    fakes: FakeTensorMode | None = None

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
            refuse_inference(location)
        func = ASKING.get(func, func)
        name = _name_of(func)
        _check_generator(name, **(kwargs or {}))
        asked = name in HOOKS | STATUS | CHANGES
        if asked or func in (SWITCH, torch.Tensor.__bool__):
            frame = asking_frame(sys._getframe(1))
            asked = asked and not is_own_question(name, frame.f_code)
            if (answer := _answer(func, args, frame, asked)) is not None:
                return answer
        if asked:
            if name in ("requires_grad_", "requires_grad =") and _is_mark(*args, **(kwargs or {})):
                return args[0] if name == "requires_grad_" else None
            check(name, lambda: location(name))
        if name in TEXTS:
            check_text(args[0], asking_frame(sys._getframe(1)))
        if name == "data":  # reading it leaves no mark in a graph
            return args[0].detach()
        self.fakes = self.fakes or detect_fake_mode()
        result = func(*args, **(kwargs or {}))
        if name in CALLS:
            _note_float(result, asking_frame(sys._getframe(1)))
        return result


def _check_generator(name: str, /, *, generator: Any = None, **_: Any) -> None:
    """Refuse a call that draws from a generator, PyTorch's own aside."""
    if generator not in (None, torch.default_generator):
        refuse_generator(name, location)


def _note_float(result: Any, frame: Any) -> None:
    """Note who took a number of the run, or a list whose first one is."""
    while isinstance(result, list) and result:
        result = result[0]
    if isinstance(result, torch.SymFloat):
        note_taken(frame.f_code, list(frame.f_code.co_positions())[frame.f_lasti // 2])


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
        setattr(torch.Tensor, "__hash__", asks_for_key(_HASH) if _asking else _HASH)  # noqa: B010


def _asked(own: Callable[[], bool]) -> Callable[[], bool]:
    @wraps(own)
    def ask() -> bool:
        frame = sys._getframe(1)
        known = not readings.stack or readings.stack[-1].inside
        if known or not is_users(frame.f_code.co_filename):
            return own()
        answers = _answers() if own is _MODES["is_grad_enabled"] else None
        answer = None if answers is None else answers.gradients(own())
        if answer is None:
            refuse(location(own.__name__), "is not known here", "decide it outside")
        return answer

    return ask


def _answer(func: Any, args: Any, frame: Any, asked: bool) -> bool | None:
    """What is known of a question, or of what PyTorch does, at a frame."""
    answers, answer = _answers(), None
    if func is torch.Tensor.__bool__ and type(args[0]) is not torch.Tensor:
        answer = expected(frame)
        if answer is not None:
            checked(args[0], answer)
    elif answers is not None and func is SWITCH and args[0] and _is_entered(frame):
        answers.switched()
    elif answers is not None and asked and _name_of(func) == "requires_grad":
        answer = answers.of(args[0])
    return answer


def _is_entered(frame: Any) -> bool:
    """Whether users' code switches gradients, not what ends a block of its own, or PyTorch."""
    passing = (PYTORCH + "autograd/grad_mode.py", PYTORCH + "utils/_contextlib.py")
    while frame.f_code.co_filename in passing:
        if frame.f_code.co_name == "__exit__":
            return False
        frame = frame.f_back
    return is_users(frame.f_code.co_filename)


def _answers() -> Answers | None:
    return readings.stack[-1].answers if readings.stack else None


def _is_mark(x: Any, requires_grad: bool = True) -> bool:
    """Whether a tensor that the code makes becomes a leaf: nobody else sees the gradient of it.

    Or stays without one: PyTorch refuses `x.requires_grad = False` of any other that is made.
    """
    mode = get_proxy_mode()
    if mode is None:  # PyTorch runs the code once before it traces it
        return True
    known: Any = torch
    plain = known._from_functional_tensor(x.elem) if isinstance(x, FunctionalTensor) else x
    slot: Any = get_proxy_slot(plain, mode.tracer, None)
    if slot is None:
        return not (requires_grad or plain.requires_grad)
    return slot.proxy.node.op != "placeholder"


def _name_of(function: Any) -> str:
    """`requires_grad` for reading it, `requires_grad =` for setting it."""
    name = getattr(function, "__name__", "")
    if name in ("__get__", "__set__"):
        return function.__self__.__name__ + (" =" if name == "__set__" else "")
    return name


def asking_frame(frame: Any) -> Any:
    """That of the code that called PyTorch; other modes pass the call on."""
    passing = (PYTORCH + "overrides.py", PYTORCH + "_tensor.py")
    while frame.f_code.co_filename in passing or frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back
    return frame


def _check_saved_tensors_hooks(hooks: Any) -> None:
    own = type(hooks) is not saved_tensors_hooks and type(hooks).__module__.startswith("torch.")
    if is_hooked() and not own:  # PyTorch's own keep the gradients as they are
        refuse(location(type(hooks).__name__), "is not supported here")


def _take_counters() -> None:
    """Let a number in a tensor be an index, which `torch.export` would take out of its tensor."""
    handler_type: Any = _NonStrictTorchFunctionHandler
    own = handler_type._override

    def override(handler: Any, func: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(func, "__name__", "") if readings.stack else ""
        if name == "__getitem__" and counters.has_counter(args[1]):
            return counters.taken, args, kwargs
        if name == "__setitem__" and counters.can_put(args[1]):
            return counters.put, args, kwargs
        return own(handler, func, args, kwargs)

    handler_type._override = override


def _patch_pytorch() -> None:
    """Put checks into what no mode shows: hooks of modules."""
    _take_counters()
    check_first(BackwardHook, "__init__", lambda *_: check_backward_hook())
    check_first(saved_tensors_hooks, "__enter__", _check_saved_tensors_hooks)
