# pyright: basic, reportMissingImports=false
"""What the code of a module that is exported may ask of gradients."""

from __future__ import annotations

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

Asked = tuple[torch.Tensor | None, bool]
"""A tensor that was asked for, None for gradients at all, and the answer."""


class Answers:
    """Whether what a module holds needs gradients, and whether gradients are on in its calls.

    Attributes:
        asked: what was asked, and the answers.
    """

    def __init__(self, module: torch.nn.Module, on: bool | None) -> None:
        """Of a module before it is exported.

        Args:
            module: the one.
            on: whether gradients are on in calls; None if that is not known.
        """
        self.asked = list[Asked]()
        self._module, self._on, self._switched = module, on, False
        self._parameters = dict(module.named_parameters(remove_duplicate=False))

    def of(self, x: torch.Tensor) -> bool | None:
        """Whether a parameter, or a tensor that was there before, needs gradients; else None."""
        for name, own in self._module.named_parameters(remove_duplicate=False):
            if own is x:  # or what stands for the parameter meanwhile
                self.asked.append((self._parameters[name], self._parameters[name].requires_grad))
                return self.asked[-1][1]
        if type(x) is torch.Tensor and not is_functorch_wrapped_tensor(x):
            self.asked.append((x, x.requires_grad))
            return x.requires_grad
        return None

    def switched(self) -> None:
        """The code switches gradients on."""
        self._switched = True

    def gradients(self, on: bool) -> bool | None:
        """Whether gradients are on, at a place where an export, which begins with them, has them so
        or not; None if that is not known."""
        if not on:
            return False
        if self._on is None or (self._switched and not self._on):
            return None
        self.asked.append((None, self._on))
        return self._on


def is_as_asked(asked: list[Asked]) -> bool:
    """Whether the answers are still the same."""
    on = torch.is_grad_enabled()
    return all((on if x is None else x.requires_grad) == answer for x, answer in asked)
