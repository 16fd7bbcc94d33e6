# pyright: basic, reportMissingImports=false
"""Watches where TorchDynamo takes apart, or answers, what it does not run."""

from __future__ import annotations

import dis
import operator
from collections.abc import Callable
from functools import wraps
from inspect import getattr_static
from typing import Any

import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo.exc import ObservedException, TorchRuntimeError, Unsupported, unimplemented
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource, GetItemSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables import dicts
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.ctx_manager import InferenceModeVariable
from torch._dynamo.variables.distributed import BackwardHookVariable
from torch._dynamo.variables.lists import ListVariable, SliceVariable, TupleVariable
from torch._dynamo.variables.misc import AutogradFunctionVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from rnncc.errors import CompileError, Location
from rnncc.frontends.torch.asking import ASKING
from rnncc.frontends.torch.checks import checked, expected_at
from rnncc.frontends.torch.module_buffers import read_buffers
from rnncc.frontends.torch.node_context import reason_of
from rnncc.frontends.torch.numbers import counters
from rnncc.frontends.torch.numbers.numpy_numbers import take_numbers
from rnncc.frontends.torch.numbers.taken_numbers import note_taken
from rnncc.frontends.torch.own_operators.function_op import applied, in_order, is_once, methods_of
from rnncc.frontends.torch.readings import (
    CHANGES,
    HOOKS,
    STATUS,
    check,
    check_backward_hook,
    check_first,
    is_own_question,
    is_read,
    is_users,
    readings,
    refuse_function,
    refuse_generator,
    refuse_inference,
    within_function,
)
from rnncc.frontends.torch.switches import SWITCH
from rnncc.frontends.torch.watching.absent import notice_absent
from rnncc.frontends.torch.watching.deques import keep_to_lengths
from rnncc.frontends.torch.watching.extremes import tell_extremes_apart
from rnncc.frontends.torch.watching.filling import fill_of, take_fills
from rnncc.frontends.torch.watching.gaps import fill_gaps
from rnncc.frontends.torch.watching.methods import notice_methods
from rnncc.frontends.torch.watching.numbers import local_name, refuse_numbers
from rnncc.frontends.torch.watching.regions import read_regions
from rnncc.frontends.torch.watching.zeros import tell_zeros_apart

STAND_INS = ("rows", "states", "kept")
"""The names under which TorchDynamo finds tensors that stand for others (`tracing._step`)."""
_UNREAD = (Unsupported, ObservedException, TorchRuntimeError)
"""What TorchDynamo raises where it cannot go on."""
_NONE = ConstantVariable.create(None)
_GETATTR = "tp_getattro_impl" if hasattr(VariableTracker, "tp_getattro_impl") else "var_getattr"
"""The method by which TorchDynamo reads attributes; before PyTorch 2.14 it had another name."""


def patch_dynamo() -> None:
    """Put checks into TorchDynamo."""
    own = AutogradFunctionVariable.call_method

    def call_method(variable: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        applies = bool(readings.stack) and name == "apply"
        if applies and _in_dynamo(tx, lambda where: is_read(variable.fn_cls, where)):
            return _applied_in_dynamo(variable, tx, args, kwargs)
        return own(variable, tx, name, args, kwargs)

    setattr(AutogradFunctionVariable, "call_method", call_method)  # noqa: B010
    read_class_attributes(lambda _: bool(readings.stack))

    read_layers(lambda _: bool(readings.stack) and readings.stack[-1].guarded)
    read_buffers(lambda: bool(readings.stack))
    _take_counters()
    take_numbers()
    _take_checks()
    _keep_attributes()
    _detach_data()
    _take_asking()
    fill_gaps()
    take_fills()
    keep_to_lengths(lambda _: bool(readings.stack))
    read_regions(_in_dynamo)
    refuse_numbers()
    notice_absent(_GETATTR)
    notice_methods()
    tell_zeros_apart()
    tell_extremes_apart()

    def check_hook(tx: Any, *_: Any) -> None:
        _in_dynamo(tx, check_backward_hook)

    def check_mode(tx: Any, *_: Any) -> None:
        _in_dynamo(tx, refuse_inference)

    check_first(BackwardHookVariable, "create", check_hook)
    check_first(InferenceModeVariable, "create", check_mode)
    for method in (_GETATTR, "call_method"):
        check_first(TensorVariable, method, _check_question)
    check_first(TensorVariable, "call_method", _check_generator)
    check_first(TorchInGraphFunctionVariable, "call_function", _check_generator)
    # else a hook that a module gets later would not be noticed
    empty = "EMPTY_NN_MODULE_HOOKS_DICT"
    check_first(GuardBuilder, empty, lambda builder, guard: builder.SEQUENCE_LENGTH(guard))


def read_layers(applies: Callable[[Any], bool]) -> None:
    """Let nn.LSTM and its like be read whole, which TorchDynamo leaves to Python.

    Args:
        applies: whether a translator reads for one of ours.
    """
    builder_type: Any = VariableBuilder
    wrap = builder_type.wrap_module

    def wrap_module(builder: Any, value: Any) -> Any:
        if not (isinstance(value, torch.nn.RNNBase) and applies(builder.tx)):
            return wrap(builder, value)
        with dynamo_config.patch(allow_rnn=True):
            return wrap(builder, value)

    builder_type.wrap_module = wrap_module


def read_class_attributes(applies: Callable[[Any], bool]) -> None:
    """Let methods of a Function read values that its class holds, as in `Spike.slope * x`.

    Args:
        applies: whether a translator reads for one of ours.
    """
    get: Any = getattr(AutogradFunctionVariable, _GETATTR)

    def get_value(variable: Any, tx: Any, name: str) -> Any:
        value = getattr_static(variable.fn_cls, name, None)
        is_tensor = isinstance(value, torch.Tensor)
        is_list = type(value) is list and all(map(_is_constant, value))
        if not (is_tensor or is_list or _is_constant(value)) or not applies(tx):
            return get(variable, tx, name)
        source = AttrSource(variable.source, name) if variable.source else None
        if is_tensor:
            return VariableTracker.build(tx, value, source)
        if is_list:  # its numbers one by one: a list that was changed is equal to itself
            if source is not None:
                install_guard(source.make_guard(GuardBuilder.SEQUENCE_LENGTH))
            places = [source and GetItemSource(source, i) for i in range(len(value))]
            numbers = [_constant(tx, *both) for both in zip(value, places, strict=True)]
            return ListVariable(numbers)  # which code cannot change
        return _constant(tx, value, source)

    setattr(AutogradFunctionVariable, _GETATTR, get_value)


def _constant(tx: Any, value: Any, source: Any) -> Any:
    """A number that is read again when it changes: as a size it could not be."""
    if source is not None:
        install_guard(source.make_guard(GuardBuilder.EQUALS_MATCH))
    return VariableTracker.build(tx, value)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, bool | int | float | str)


def _take_counters() -> None:
    """Let a number in a tensor be an index, as it is in Python."""
    builtin: Any = BuiltinVariable
    tensor: Any = TensorVariable
    call, put = builtin.call_function, tensor.method___setitem__

    def call_function(variable: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        takes = variable.fn is operator.getitem and bool(readings.stack) and len(args) == 2
        if not (takes and isinstance(args[0].realize(), TensorVariable) and _has_counter(args[1])):
            return call(variable, tx, args, kwargs)
        return VariableTracker.build(tx, counters.taken).call_function(tx, args, kwargs)

    def put_item(variable: Any, tx: Any, key: Any, value: Any) -> Any:
        if not readings.stack or not _has_counter(key, others=False):
            return put(variable, tx, key, value)
        function = VariableTracker.build(tx, counters.put)
        return function.call_function(tx, [variable, key, value], {})

    builtin.call_function = call_function
    tensor.method___setitem__ = put_item


def _take_checks() -> None:
    """Let code that raises an error for some values be as an `assert` is, which Dynamo takes."""
    kind: Any = InstructionTranslatorBase
    for name in list(vars(kind)):
        asks = "JUMP" in name and name.endswith(("IF_TRUE", "IF_FALSE", "_OR_POP"))
        if asks or name == "UNARY_NOT":
            jump = _checking(vars(kind)[name])
            setattr(kind, name, jump)
            for translator in (kind, *kind.__subclasses__()):
                if name in dis.opmap:
                    translator.dispatch_table[dis.opmap[name]] = jump


def _checking(own: Any) -> Any:
    @wraps(own)
    def jump(tx: Any, step: Any) -> None:
        value = tx.stack[-1].realize() if readings.stack else None
        is_checked = isinstance(value, TensorVariable) and readings.stack[-1].guarded
        answer = _answer(tx, step) if is_checked else None
        if answer is None:
            if isinstance(value, TensorVariable) or _is_unknown(value):
                _note_question(tx, _is_unknown(value))
            own(tx, step)
            return
        function = VariableTracker.build(tx, checked)
        function.call_function(tx, [tx.pop(), VariableTracker.build(tx, answer)], {})
        if step.opname.endswith("TRUE") == answer:
            tx.jump(step)

    return jump


def _take_asking() -> None:
    """Let functions of PyTorch that ask what tensors hold be ours; Dynamo would not look inside."""
    kind: Any = TorchInGraphFunctionVariable
    own = kind.call_function

    @wraps(own)
    def call_function(variable: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        instead = ASKING.get(variable.value) if readings.stack else None
        instead = instead or fill_of(variable.value, args, kwargs)
        if instead is None:
            return own(variable, tx, args, kwargs)
        return VariableTracker.build(tx, instead).call_function(tx, args, kwargs)

    kind.call_function = call_function


def _keep_attributes() -> None:
    """Let attributes that are assigned behind `torch.cond` be: PyTorch 2.13 writes them down in a
    table that it has replaced there, and reads the old values."""
    kind: Any = getattr(dicts, "SideEffectsProxyDict", None)
    if kind is None:
        return

    def get(proxy: Any) -> Any:
        graph = proxy.table.output_graph_weakref()
        return proxy.table if graph is None else graph.side_effects

    def put(proxy: Any, table: Any) -> None:
        proxy.table = table

    kind.side_effects = property(get, put)


def _is_unknown(value: Any) -> bool:
    """Whether it is a number that was in a tensor."""
    return isinstance(value, SymNodeVariable) and bool(free_unbacked_symbols(value.sym_num))


def _note_question(tx: Any, of_number: bool = False) -> None:
    """Note that code asks for a tensor's value, or what it calls of Python's own, such as `any`."""
    while not is_users(tx.f_code.co_filename) and getattr(tx, "parent", None) is not None:
        tx = tx.parent
    at = tx.current_instruction.positions
    span = at and (at.lineno, at.end_lineno, at.col_offset, at.end_col_offset)
    users = is_users(tx.f_code.co_filename)
    readings.asked = (tx.f_code, span, of_number) if span and users else None


def _answer(tx: Any, step: Any) -> bool | None:
    """What a tensor must be where a jump leads to an error else, which nothing catches."""
    outer = tx
    while outer is not None:
        if outer.current_instruction.exn_tab_entry is not None:
            return None
        outer = outer.parent
    places = {id(known): at for at, known in enumerate(tx.instructions)}
    return expected_at(tx.instructions, places[id(step)], places.get(id(step.target)))


def _detach_data() -> None:
    """Let `x.data` be `x.detach()`: a trace of the body of a loop would take it for a constant."""
    tensor: Any = TensorVariable
    get: Any = getattr(tensor, _GETATTR)

    def get_detached(variable: Any, tx: Any, name: str) -> Any:
        if readings.stack and name == "data":
            return variable.call_method(tx, "detach", [], {})
        return get(variable, tx, name)

    setattr(tensor, _GETATTR, get_detached)


def _has_counter(key: Any, others: bool = True) -> bool:
    """Whether an entry of an index is a counter: the only one that is a tensor or a list, but for
    `others`."""
    key = key.realize()
    entries = [e.realize() for e in (key.items if isinstance(key, TupleVariable) else [key])]
    tensors = [e for e in entries if isinstance(e, TensorVariable)]
    counting = [e for e in tensors if counters.is_counter(e.as_proxy().node.meta["example_value"])]
    plain = sum(isinstance(e, ConstantVariable | SliceVariable) for e in entries)
    return bool(counting) and (others or len(counting) == 1 == len(entries) - plain)


def _check_question(variable: Any, tx: Any, name: str, *_: Any) -> None:
    if name in ("item", "tolist"):
        _note_question(tx, name == "tolist")
        if readings.asked is not None and _is_float(variable):
            note_taken(*readings.asked[:2])
    if name not in HOOKS | STATUS | CHANGES or name == "detach_":  # which Dynamo puts in place
        return
    if is_own_question(name, tx.f_code) or _is_true(variable, name):
        return
    _in_dynamo(tx, lambda where: check(name, lambda: where(name)))


def _check_generator(variable: Any, tx: Any, *arguments: Any) -> None:
    """Refuse a call of a function, or of a tensor's method by its name, that has a generator."""
    named = arguments[-1] if isinstance(arguments[-1], dict) else {}
    if not isinstance(named.get("generator", _NONE).realize(), ConstantVariable):
        name = arguments[0] if isinstance(variable, TensorVariable) else variable.value.__name__
        _in_dynamo(tx, lambda where: refuse_generator(name, where))


def _is_float(variable: Any) -> bool:
    return variable.as_proxy().node.meta["example_value"].is_floating_point()


def _is_true(variable: Any, name: str) -> bool:
    """Whether what Dynamo knows of a tensor is so in the run too, which guards see to.

    A stand-in needs no gradient where what it stands for may, and so it is with their results.
    """
    if name not in STATUS or name == "_version" or not readings.stack[-1].guarded:
        return False
    held = variable.source is not None and not is_stand_in(variable)
    return held or (name == "requires_grad" and variable.requires_grad)


def is_stand_in(variable: Any) -> bool:
    """Whether what Dynamo knows of a tensor is that it stands for others."""
    return local_name(variable.source) in STAND_INS


def _in_dynamo(tx: Any, check: Callable[[Callable[[str], Location]], Any]) -> Any:
    """What a check says; Dynamo stops where something is refused."""

    def where(name: str) -> Location:
        frame = tx
        while frame.parent is not None and not is_users(frame.f_code.co_filename):
            frame = frame.parent
        return Location(f"{frame.f_code.co_filename}:{frame.lineno}", name)

    try:
        return check(where)
    except CompileError as error:
        unimplemented(gb_type="rnncc", context="", explanation=str(error), hints=[])


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
        with within_function():
            arguments = TupleVariable(in_order(function, args, kwargs))
            once = VariableTracker.build(tx, is_once(function))
            operands = [*methods, arguments, once]
            results = VariableTracker.build(tx, applied).call_function(tx, operands, {})
    except _UNREAD as error:
        reason = reason_of(str(error))
        _in_dynamo(tx, lambda where: refuse_function(function, where, reason))
    for node in tx.output.graph.find_nodes(op="call_function", target=SWITCH):
        if node not in before:  # within a Function there are no gradients to be switched on
            tx.output.graph.erase_node(node)
    return results
