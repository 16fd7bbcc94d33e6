# pyright: basic, reportMissingImports=false
"""What a part of code, a way of a branch or a loop, changes of Python's: nothing, or it is refused.

Where TorchDynamo reads the part, it sees to that itself (`watch_regions.alone`).
"""

from __future__ import annotations

from typing import Any

import torch

from rnncc.frontends.torch.watch_regions import refuse_effect
from rnncc.torch.kept import Holdings


def held_by(parts: Any) -> Holdings | None:
    """What everything holds that parts lead to; None where TorchDynamo reads."""
    return None if torch.compiler.is_dynamo_compiling() else Holdings(parts)


def check_unchanged(before: Holdings | None, name: str) -> None:
    """Refuse a part that has changed something since.

    Args:
        name: what it is of: a branch, or a loop.
    """
    if before is not None and (place := before.changed()):
        refuse_effect(name, place)
