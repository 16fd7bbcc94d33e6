"""What models may hold and rnncc does not do."""

from __future__ import annotations

from collections.abc import Sequence

from rnncc.errors import CompileError, Location


class Unsupported(CompileError):
    """What ONNX allows and rnncc does not do."""


class NeedsValue(Unsupported):
    """The numbers of an input of the model decide a shape.

    Args:
        inputs: the inputs of the model.
    """

    def __init__(self, location: Location, what: str, hint: str, inputs: Sequence[str]) -> None:
        super().__init__(location, what, hint)
        self.inputs = list(inputs)


class Uneven(NeedsValue):
    """Branches give other ranks, types or lists: nodes behind them may make these meet.

    Args:
        name: of the result.
    Attributes:
        result: the place of the `If`, and that name.
    """

    def __init__(
        self, location: Location, what: str, hint: str, inputs: Sequence[str], name: str
    ) -> None:
        super().__init__(location, what, hint, inputs)
        self.result = location.node, name
