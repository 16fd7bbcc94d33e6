# pyright: basic, reportMissingImports=false
"""Lets TorchDynamo notice when a number that code reads changes from 0.0 to -0.0, or back.

Its guards compare numbers, and these two are equal; quotients by them are not.
"""

from __future__ import annotations

from typing import Any

from torch._dynamo.guards import GuardBuilder, get_verbose_code_parts

from rnncc.frontends.torch.readings import check_first


def tell_zeros_apart() -> None:
    """Compare the texts of zeros, too."""

    def guard_sign(builder: Any, guard: Any, *_: Any, **__: Any) -> None:
        value = builder.get(guard)
        if not _has_zero(value):
            return
        text = repr(value)
        parts = get_verbose_code_parts([f"repr({builder.arg_ref(guard)}) == {text!r}"], guard)
        manager = builder.get_guard_manager(guard)
        manager.add_lambda_guard(lambda now: repr(now) == text, parts, guard.user_stack)

    check_first(GuardBuilder, "EQUALS_MATCH", guard_sign)


def _has_zero(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_zero, value))
    if isinstance(value, complex):
        return 0 in (value.real, value.imag)
    return isinstance(value, float) and value == 0
