# pyright: basic, reportMissingImports=false
"""What PyTorch 2.11 lacks of what later ones have."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from inspect import signature
from typing import Any

import torch
import torch._dynamo
from torch._dynamo import convert_frame, eval_frame, trace_rules
from torch._dynamo.eval_frame import DynamoStance, TorchPatcher
from torch._dynamo.variables.functions import SkipFunctionVariable
from torch._dynamo.variables.misc import ExceptionVariable

from rnncc.frontends.torch.patches import ThreadScope, ThreadStack, once

HAS_LIMITS = "recompile_limit" in signature(torch.compile).parameters
"""Whether `torch.compile` takes a limit of its own for each function, as it does from 2.12 on."""


_LOGGERS = [
    logging.getLogger(name)
    for name in ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")
]


_LEVELS = "debug", "info", "warning", "error", "exception", "critical", "log"
_TELLING: frozenset[Any] = frozenset(
    [print, warnings.warn]
    + [getattr(owner, level) for owner in (logging, logging.Logger) for level in _LEVELS]
)
_reading = ThreadScope()


@contextmanager
def not_validating() -> Generator[None]:
    """Until the end of the block distributions do not look at the values of their parameters.

    TorchDynamo switches that off for good when it is first used, within such a block or not, and
    could not read them else.
    """
    kind: Any = torch.distributions.Distribution
    before = kind._validate_args
    if not before:
        yield
        return
    times = TorchPatcher.patch.cache_info().currsize
    kind._validate_args = False
    try:
        yield
    finally:
        if TorchPatcher.patch.cache_info().currsize == times:
            kind._validate_args = before


_READING = {
    "trace_autograd_ops": True,
    "automatic_dynamic_shapes": False,
    "assume_static_by_default": True,
    "record_pre_graph_bytecode_in_traces": False,
    "verify_correctness": False,
    "error_on_recompile": False,
    "enable_faithful_generator_behavior": True,
    "invalidate_compile_context_weakrefs": True,
}
"""Dynamo's settings while it reads, of those that a PyTorch has: `torch.autograd.grad` is read
where it can be, sizes are open where they are marked and nowhere else, and what a call does before
the loop is told to no profiler, which took 8 us. A step's graph gives no values that others could
be verified with, and to read another one is no mistake; the code around a cell has generators.
Weak references to what the cell holds would keep `torch.utils.swap_tensors` from it."""


@contextmanager
def reading_settings() -> Generator[None]:
    """A context in which Dynamo's settings are those.

    `torch.compile(dynamic=False)` would set those of sizes at each call, which takes 10 us.
    """
    config: Any = torch._dynamo.config
    before = {name: getattr(config, name) for name in _READING if hasattr(config, name)}
    changed = {name: old for name, old in before.items() if old != _READING[name]}
    for name in changed:
        setattr(config, name, _READING[name])  # `patch` makes a class at each call
    try:
        yield
    finally:
        for name, old in changed.items():
            setattr(config, name, old)


def leave_packing() -> None:
    """Leave `pad_packed_sequence` to Python, as later versions do: 2.11 cannot read it, and raises
    that as an error of the code."""
    name, rules = "torch.nn.utils.rnn.pad_packed_sequence", trace_rules.manual_torch_name_rule_map
    if not any(name in known for known in trace_rules.torch_name_rule_map):
        rules[name] = SkipFunctionVariable
        trace_rules.get_torch_obj_rule_map.cache_clear()


_COMPILES = DynamoStance()


def is_held_back() -> bool:
    """Whether `torch.compiler.set_stance` keeps this thread from reading, or from comparing guards:
    a loop has no steps that could be done by PyTorch instead."""
    return eval_frame._stance != _COMPILES


@contextmanager
def reading_silently() -> Generator[None]:
    """A context in which Dynamo leaves out what code tells, by print, warnings or logging: it would
    be told once a call, not once a step. Before PyTorch 2.13 it reads no code that tells something.
    """
    ignored: set[Any] = getattr(torch._dynamo.config, "ignore_logging_functions", set())
    added = _TELLING - ignored
    ignored |= added
    try:
        yield
    finally:
        ignored -= added


@contextmanager
def quiet() -> Generator[None]:
    """Until the end of the block PyTorch logs no traces of what it cannot read."""
    before, quietly = [logger.disabled for logger in _LOGGERS], "TORCH_LOGS" not in os.environ
    for logger in _LOGGERS:
        logger.disabled = quietly
    try:
        yield
    finally:
        for logger, was_disabled in zip(_LOGGERS, before, strict=True):
            logger.disabled = was_disabled


class BeforeReading:
    """Until the end of the block, contexts are entered as soon as TorchDynamo reads in this thread.

    A call whose guards hold does without them: they took longer than the guards.
    """

    def __init__(self, contexts: Callable[[], Iterable[AbstractContextManager[Any]]]) -> None:
        self._contexts = contexts
        self._entered: ExitStack | None = None

    def __enter__(self) -> None:
        _waiting.stack.append(self)

    def __exit__(self, *error: Any) -> bool | None:
        _waiting.stack.pop()
        return self._entered and self._entered.__exit__(*error)

    @property
    def has_begun(self) -> bool:
        """Whether they are entered."""
        return self._entered is not None

    def begin(self) -> None:
        """TorchDynamo is about to read."""
        if self._entered is None:
            drop_hooks_left()
            self._entered = ExitStack()
            for context in self._contexts():
                self._entered.enter_context(context)


def _message_of(raised: Any) -> str:
    """What code that is read raises, with its message, of which 2.11 tells the class alone."""
    known = (x.as_python_constant() for x in raised.args if x.is_python_constant())
    return f"{raised.exc_type.__name__}({', '.join(map(repr, known))})"


if "debug_repr" not in vars(ExceptionVariable):
    for name in ("__str__", "__repr__"):
        setattr(ExceptionVariable, name, _message_of)


def drop_hooks_left() -> None:
    """Take away what PyTorch hears of buffers by, if an export that has ended has left it.

    That of 2.11 does so where it fails: from then on TorchDynamo could read no cell that assigns a
    buffer.
    """
    if torch.compiler.is_exporting():
        return
    hooks: Any = torch.nn.modules.module._global_buffer_registration_hooks
    for key in [
        key for key, hook in hooks.items() if hook.__module__.startswith("torch._functorch")
    ]:
        del hooks[key]


def check_begun() -> None:
    """See that what was read just now was read within such contexts, however this PyTorch reads.

    Raises:
        RuntimeError: it was not.
    """
    if not (_waiting.stack and _waiting.stack[-1].has_begun):
        raise RuntimeError("TorchDynamo has read a cell without the callback that is expected")


_waiting = ThreadStack[BeforeReading]()


@once
def _patch_reading() -> None:
    """Let TorchDynamo's own callback for code that it does not know, or no longer, begin so."""
    frames: Any = convert_frame.ConvertFrameAssert
    own = frames.__call__

    @wraps(own)
    def convert(*args: Any, **kwargs: Any) -> Any:
        if _waiting.stack:
            _waiting.stack[-1].begin()
        return own(*args, **kwargs)

    frames.__call__ = convert


def compile_often(function: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    """`torch.compile`; a function is read as often as guards ask for it.

    TorchDynamo's limit of eight readings is for code that changes without end. Here each is a loop
    that was compiled, so that the limit of the sum of all readings is the one that holds.
    """
    _patch_reading()
    most = torch._dynamo.config.accumulated_recompile_limit
    options: Any = {"backend": backend, "fullgraph": True}
    if HAS_LIMITS:
        options["recompile_limit"] = most
        return torch.compile(function, **options)
    _patch()
    compiled = torch.compile(function, **options)

    @wraps(function)
    def call(*arguments: Any) -> Any:
        with _reading:
            return compiled(*arguments)

    return call


@once
def _patch() -> None:
    """Let Dynamo compare with the larger limit while this thread reads such a function.

    It also logged that it could not sort the functions which it leaves out (`reading_silently`).
    """
    frames: Any = convert_frame
    own, config = frames.exceeds_recompile_limit, torch._dynamo.config

    @wraps(own)
    def exceeds(*args: Any) -> Any:
        if not _reading:
            return own(*args)
        with config.patch(recompile_limit=config.accumulated_recompile_limit):
            return own(*args)

    frames.exceeds_recompile_limit = exceeds
    measured: Any = torch._dynamo.utils
    settings = measured._get_dynamo_config_for_logging

    @wraps(settings)
    def sortable_settings() -> Any:
        if not _reading:
            return settings()
        with config.patch(ignore_logging_functions=set()):
            return settings()

    measured._get_dynamo_config_for_logging = sortable_settings
