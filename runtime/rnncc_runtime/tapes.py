"""What a forward pass leaves for a backward pass."""
# pyright: reportPrivateUsage=false

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from rnncc_runtime.compiled import Shape, Shapeds
from rnncc_runtime.errors import ArrayError
from rnncc_runtime.memory import Memory

if TYPE_CHECKING:
    from rnncc_runtime.training import TrainableModel


@dataclass(eq=False)
class Tape:
    """What a forward pass leaves for the backward pass of the same model, which uses it up.

    The inputs and outputs of the forward pass belong to it: leave them unchanged until then. It
    holds addresses of this process, and one backward pass writes over it: there are no copies.
    """

    _model: TrainableModel = field(repr=False)
    _inputs: Shapeds = field(repr=False)
    _outputs: Shapeds = field(repr=False)
    _sizes: TrainingSizes = field(repr=False)
    _blocks: list[Memory] = field(repr=False)
    """The memory; none once it is used up."""
    _packing: int = field(default=0, repr=False)
    """Which packing of the parameters forward has read."""
    _pointers: Any = field(default=None, repr=False)
    """The table of the inputs."""

    @property
    def model(self) -> TrainableModel:
        """Whose forward pass left it."""
        return self._model

    @property
    def nbytes(self) -> int:
        """Bytes of the tape itself, without inputs and outputs; 0 once used up."""
        return sum(block.size for block in self._blocks)

    def _check(self, model: TrainableModel) -> None:
        if self._model is not model:
            other = self._model.name
            whose = "another" if other == model.name else f"the model {other}, another"
            raise ArrayError(f"the tape is of {whose} model than {model.name} called here")
        if not self._blocks:
            raise used_up()
        if self._packing != model._packing:
            raise ArrayError(f"parameters of {model.name} were updated since forward left the tape")

    def _take(self) -> Memory:
        """The memory, for one of however many threads ask for it."""
        try:
            return self._blocks.pop()  # atomic
        except IndexError:
            raise used_up() from None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a tape cannot be copied or pickled")


def used_up() -> ArrayError:
    """What a second backward pass is told."""
    return ArrayError("the tape was used up by an earlier backward pass")


@dataclass(frozen=True)
class TrainingSizes:
    """What follows from the sizes of a call: shapes by group of arrays, and bytes."""

    symbols: Shape
    shapes: dict[str, list[Shape]]
    tape: int
    workspace: int
