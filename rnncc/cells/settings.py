"""The options that every builder has, and their check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, get_args

from rnncc.errors import CompileError
from rnncc.names import bad_library_name
from rnncc.records import record

Direction = Literal["forward", "backward", "both"]
Merge = Literal["add", "multiply", "average", "concatenate"]
Layout = Literal["NCT", "NTC", "TNC", "NC"]


class LayerOptions(TypedDict, total=False):
    """Keyword arguments of every builder; `LayerSettings` says what they mean."""

    layout: Layout
    direction: Direction
    merge: Merge
    layers: int
    masked: bool
    initial_state: bool
    tbptt: int | None
    drop_connect: float
    rescale: bool
    parameters: Mapping[str, Any] | None
    seed: int
    name: str


@record
class LayerSettings:
    """The options of a layer, checked.

    Attributes:
        layout: the axes of x and y: N examples, T steps, C features (nIn and H); "NC" is one step.
            The mask has them without C.
        direction: which way in time; "both" is two independent layers, whose names end in F and B.
        merge: what y is with both: their sum, product, mean, or both side by side.
        layers: how many, each with the y of the one before as its input; with more than one, all
            names but x, mask, seed and y start with "layer0/", "layer1/", ...
        masked: an input `mask`, 0 or 1, by which a step's states are multiplied: a masked step
            hands zeros on.
        initial_state: inputs `h0`, `c0` [N, H]; without them states start from zeros.
        tbptt: gradients cover the last so many steps in processing order; None: all.
        drop_connect: the probability that a weight of W is taken for 0 in a call, drawn from the
            input `seed` (i32, rank 0). For training; build without it to infer.
        rescale: divide the weights kept by 1 - drop_connect, so that their mean stays.
        parameters: arrays by name; without them they start as `seed` draws them.
        seed: of the parameters' start.
        name: the net's; the builder's without it.
    """

    layout: Layout = "TNC"
    direction: Direction = "forward"
    merge: Merge = "add"
    layers: int = 1
    masked: bool = False
    initial_state: bool = False
    tbptt: int | None = None
    drop_connect: float = 0.0
    rescale: bool = False
    parameters: Mapping[str, Any] | None = None
    seed: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        choices = {"layout": Layout, "direction": Direction, "merge": Merge}
        for option, literal in choices.items():
            _expect(getattr(self, option) in get_args(literal), self, option, get_args(literal))
        _expect(_counts(self.layers), self, "layers", ["a number from 1 up"])
        _expect(self.tbptt is None or _counts(self.tbptt), self, "tbptt", ["a number from 1 up"])
        _expect(0 <= self.drop_connect < 1, self, "drop_connect", ["from 0 up and below 1"])
        _expect(_counts(self.seed + 1), self, "seed", ["a number from 0 up"])
        name = self.name or "net"
        _expect(not bad_library_name(name), self, "name", ["a C identifier"])

    @property
    def directions(self) -> list[tuple[str, bool]]:
        """The ending of its names and whether it runs backwards, of each."""
        if self.direction == "both":
            return [("F", False), ("B", True)]
        return [("", self.direction == "backward")]

    @property
    def width(self) -> int:
        """How many times H features y has."""
        return 2 if self.direction == "both" and self.merge == "concatenate" else 1

    def prefix(self, layer: int) -> str:
        """What a layer's names start with."""
        return f"layer{layer}/" if self.layers > 1 else ""


def _counts(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1


def _expect(ok: bool, settings: LayerSettings, option: str, choices: Any) -> None:
    if not ok:
        value = getattr(settings, option)
        raise CompileError("", f"{option} is {value!r}, expected {', '.join(choices)}")
