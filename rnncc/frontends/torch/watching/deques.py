# pyright: basic, reportMissingImports=false
"""Lets TorchDynamo keep to the length of a deque that it finds, `deque(rows, maxlen=3)`.

It knows that of a deque which code makes, but reads one from outside as if it could grow: after an
append it has all the old entries, and a new one. (So does PyTorch 2.13 with any back end.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any

from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.source import AttrSource
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import DequeVariable


def keep_to_lengths(applies: Callable[[Any], bool]) -> None:
    """Tell the length where a deque is read; where it is written, entries replace all old ones.

    Args:
        applies: whether a translator reads for one of ours.
    """
    builder: Any = VariableBuilder
    effects: Any = SideEffects
    deques: Any = DequeVariable
    wrap, write = builder.wrap_listlike, effects.codegen_update_mutated
    call = deques.call_method

    @wraps(wrap)
    def wrap_listlike(own: Any, value: Any) -> Any:
        result = wrap(own, value)
        if type(value) is deque and isinstance(result, DequeVariable) and applies(own.tx):
            result.maxlen = ConstantVariable.create(value.maxlen)
            install_guard(AttrSource(own.source, "maxlen").make_guard(GuardBuilder.EQUALS_MATCH))
        return result

    builder.wrap_listlike = wrap_listlike
    _forget_tables(builder)

    @wraps(call)
    def call_method(own: Any, tx: Any, *args: Any) -> Any:
        result = call(own, tx, *args)
        if own.maxlen.as_python_constant() == 0 and applies(tx):
            own.items.clear()  # Dynamo takes the last none of them, `[-0:]`, which are all
        return result

    deques.call_method = call_method

    @wraps(write)
    def update(own: Any, code: Any, *args: Any, **kwargs: Any) -> Any:
        changed = own._get_modified_vars() if applies(code.tx) else ()
        lengths = [(x, x.maxlen) for x in changed if isinstance(x, DequeVariable)]
        for x, _ in lengths:  # at most so many are left: Dynamo clears the deque, and extends it
            x.maxlen = ConstantVariable.create(None)
        try:
            return write(own, code, *args, **kwargs)
        finally:
            for x, length in lengths:
                x.maxlen = length

    effects.codegen_update_mutated = update


def _forget_tables(builder: Any) -> None:
    """Have Dynamo look its methods up again: tables hold the old ones where it has read code."""
    for name in ("_type_dispatch", "_type_dispatch_impl"):
        table: Any = getattr(builder, name, None)
        if hasattr(table, "cache_clear"):
            table.cache_clear()
