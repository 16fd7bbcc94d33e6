# pyright: basic, reportMissingImports=false
"""Nests of tuples, lists and dicts of tensors, read by TorchDynamo too."""

from __future__ import annotations

from typing import Any


def in_order_of(before: Any, after: Any) -> Any:
    """A nest with the keys of its dicts in the order of another's; what is no such nest as it is.

    A cell may write the next state's dict in any order; tensors of nests are counted in order.
    """
    if type(before) is not type(after):
        return after
    if type(before) is dict and before.keys() == after.keys():
        return {key: in_order_of(value, after[key]) for key, value in before.items()}
    if type(before) in (tuple, list) and len(before) == len(after):
        return type(before)([in_order_of(*pair) for pair in zip(before, after, strict=True)])
    return after
