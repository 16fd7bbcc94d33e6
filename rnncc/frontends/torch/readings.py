# pyright: basic, reportMissingImports=false
"""What this thread reads of users' code, and how anything in it is refused."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from types import CodeType
from typing import Any, NoReturn

import torch

from rnncc.errors import CompileError, Location
from rnncc.frontends.torch.answers import Answers
from rnncc.frontends.torch.node_context import PYTORCH, RNNCC
from rnncc.frontends.torch.switches import SWITCH

HOOKS = {"register_hook", "register_post_accumulate_grad_hook", "retain_grad"}
STATUS = {"requires_grad", "is_leaf", "grad_fn", "grad", "_version", "is_inference"}
CHANGES = {"requires_grad_", "requires_grad =", "data =", "backward", "detach_"}
TRACERS = tuple(PYTORCH + name for name in ("_", "export/", "fx/", "utils/"))
"""Where PyTorch reads users' code; what these ask of tensors is no question of users."""
SHOWN = ("torch._higher_order_ops", "torch._library", "rnncc.torch.")
"""Modules whose Functions belong to operators, which graphs do show."""


@dataclass
class Reading:
    """What is read.

    Attributes:
        differentiable: tells whether what is read now gets gradients.
        guarded: whether tensors that stand-ins are not are those of the real run.
        refusal: what was refused first.
        inside: whether it is what a custom Function does, where nothing gets gradients.
        answers: what it may ask of gradients.
    """

    differentiable: Callable[[], bool]
    guarded: bool
    refusal: CompileError | None = None
    inside: bool = False
    answers: Answers | None = None


class _Readings(threading.local):
    """What a thread reads.

    Attributes:
        stack: what, within each other.
        branches: whether branches on tensors' values may be read.
        asked: the code that asked last whether a tensor is true, and where in it, as in
            `co_positions()`, and whether of a number in one; None if TorchDynamo has met none.
        taken: the code that took a float out of a tensor last, and where, as of `asked`.
        written: the numbers of code written anew that was read.
    """

    def __init__(self) -> None:
        self.stack: list[Reading] = []
        self.branches = False
        self.asked: tuple[CodeType, Any, bool] | None = None
        self.taken: tuple[CodeType, Any, bool] | None = None
        self.written = set[int]()


readings = _Readings()


def is_own_question(name: str, code: CodeType) -> bool:
    """Whether PyTorch asks for itself.

    Its library takes one of two equal ways by `requires_grad`, and refuses what is no parameter.
    """
    own = code.co_filename.startswith(PYTORCH if name == "requires_grad" else TRACERS)
    return own or code is torch.nn.Module.register_parameter.__code__


def check(name: str, where: Callable[[], Location]) -> None:
    """Refuse what is asked of a tensor, or done to it, by its name."""
    if name in STATUS:
        refuse(where(), "what autograd knows of a tensor is not known here", "decide it outside")
    if name in CHANGES:
        hints = {"detach_": "x = x.detach()", "requires_grad_": "torch.func.grad"}
        refuse(where(), "is not supported here", hints.get(name))
    if is_hooked():
        refuse(where(), "hooks within compiled code are not supported", "register it outside")


def is_differentiable() -> bool:
    """Whether what is read now gets gradients."""
    return bool(readings.stack) and readings.stack[-1].differentiable()


def is_hooked() -> bool:
    """Whether a hook would do anything: within a Function it might, on what that was given."""
    return bool(readings.stack) and (readings.stack[-1].inside or is_differentiable())


def refuse_generator(name: str, where: Callable[[str], Location]) -> NoReturn:
    """Refuse an operator that draws from a generator of the user's, of which a graph has none."""
    what = "draws random numbers from a torch.Generator"
    refuse(where(name), what, "leave generator= out: PyTorch's own, torch.manual_seed, is asked")


def refuse(where: Location | str, what: str, hint: str | None = None) -> NoReturn:
    """Raise an error, which those who read will raise too, whatever becomes of it meanwhile."""
    error = CompileError(where, what, hint)
    for reading in readings.stack:
        reading.refusal = reading.refusal or error
    raise error


def refuse_inference(where: Callable[[str], Location]) -> NoReturn:
    """`torch.inference_mode()`."""
    refuse(where("inference_mode"), "is not supported here", "torch.no_grad()")


def is_read(function: Any, where: Callable[[str], Location]) -> bool:
    """Whether a custom Function's backward is to be read too; those of PyTorch are refused."""
    name = function.__module__
    if not is_differentiable() or name.startswith(SHOWN):
        return False
    if name.startswith("torch."):
        what = "the backward of a torch.autograd.Function is not supported"
        refuse(where(function.__qualname__), what, "torch.no_grad() for inference")
    return True


@contextmanager
def within_function() -> Generator[None]:
    """Within a Function, where nothing gets gradients; what records switches does not see it."""
    readings.stack.append(Reading(lambda: False, readings.stack[-1].guarded, inside=True))
    before = torch.is_grad_enabled()
    set_gradients(False)
    try:
        yield
    finally:
        set_gradients(before)
        readings.stack.pop()


def set_gradients(enabled: bool) -> None:
    """Switch gradients, unseen."""
    with torch._C.DisableTorchFunction():
        SWITCH(enabled)


def refuse_function(function: Any, where: Callable[[str], Location], reason: str) -> NoReturn:
    """A custom Function that cannot be read."""
    first = reason.strip().partition("\n")[0]
    what = f"this torch.autograd.Function cannot be read: {first}"
    refuse(where(function.__qualname__), what, "torch.no_grad() for inference")


def check_backward_hook(where: Callable[[str], Location] | None = None) -> None:
    """Refuse the backward hooks of modules."""
    if is_hooked():
        place = (where or location)("backward hook")
        refuse(place, "hooks within compiled code are not supported", "remove it")


def location(name: str) -> Location:
    """The line of the innermost code that is neither PyTorch's nor ours."""
    frame: Any = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return Location("" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}", name)


def is_users(file: str) -> bool:
    """Whether code is neither PyTorch's nor ours."""
    return not file.startswith((PYTORCH, RNNCC, "<eval_with_key>", "<frozen "))


def check_first(owner: Any, name: str, check: Callable[..., None]) -> None:
    """Make a method check its arguments first, while this thread reads."""
    own = getattr(owner, name)

    @wraps(own)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if readings.stack:
            check(*args)
        return own(*args, **kwargs)

    static = not isinstance(owner.__dict__[name], staticmethod)
    setattr(owner, name, checked if static else staticmethod(checked))
