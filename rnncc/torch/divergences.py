# pyright: basic, reportMissingImports=false
"""Divergences of distributions, as TorchDynamo can read them.

`torch.distributions.kl_divergence` finds the formula for two distributions with `min` of objects
that compare themselves, which TorchDynamo cannot read, and keeps it in a dict of its own, which a
step may not change. So a cell could be read where the program had already computed such a
divergence, and was refused where it had not.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch.distributions import kl

Types = tuple[type, type]


def let_divergences_be_read() -> None:
    """Have TorchDynamo read the function below instead; calls that it does not read stay
    PyTorch's."""
    with suppress(ValueError):  # what PyTorch has itself by then
        torch.compiler.substitute_in_graph(kl.kl_divergence)(_divergence)


def _divergence(p: Any, q: Any) -> torch.Tensor:
    formula = _formula_for(type(p), type(q))
    if formula is NotImplemented:
        names = f"p type {type(p).__name__} and q type {type(q).__name__}"
        raise NotImplementedError(f"No KL(p || q) is implemented for {names}")
    return formula(p, q)


def _formula_for(p: type, q: type) -> Any:
    """PyTorch's choice: of what is registered for these types or for what they inherit from, the
    formula of the most special types, those of p first."""
    best: Types | None = None
    for types in kl._KL_REGISTRY:
        fits = issubclass(p, types[0]) and issubclass(q, types[1])
        if fits and (best is None or _is_before(types, best)):
            best = types
    return NotImplemented if best is None else kl._KL_REGISTRY[best]


def _is_before(one: Types, other: Types) -> bool:
    for mine, others in zip(one, other, strict=True):
        if not issubclass(mine, others):
            return False
        if mine is not others:
            break
    return one != other
