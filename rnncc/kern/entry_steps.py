"""What exported functions are made of: where a pointer comes from, and the steps of a call."""

from __future__ import annotations

from typing import Literal

from rnncc.ir.dims import Dim
from rnncc.records import record

START = Dim.of(0)


@record
class Field:
    """A pointer of one of the caller's structs."""

    struct: str
    number: int


@record
class Place:
    """So many bytes into a block: one of the parameters, or the library's `weights`."""

    block: str
    offset: Dim = START


@record
class Stored:
    """The pointer that lies at a place."""

    place: Place


@record
class Default:
    """A field, or a place where that is NULL."""

    field: Field
    fallback: Place


Source = Field | Place | Stored | Default | None
"""Where a pointer comes from; None is NULL."""


@record
class CheckSizes:
    """Refuse sizes that are negative or too large, or for which one of `bounds` is negative."""

    bounds: tuple[Dim, ...]


@record
class NotNull:
    """Refuse NULL in place of a block."""

    block: str


@record
class Locate:
    """Find places of the caller's blocks that several of the next steps use."""

    places: tuple[Place, ...]


@record
class Call:
    """Call a program.

    Attributes:
        inputs, outputs: a pointer for each of its ports.
        stops: whether the function returns at once what is not OK; else it is returned in the end.
    """

    program: str
    inputs: tuple[Source, ...]
    outputs: tuple[Source, ...]
    workspace: Place
    stops: bool = True


@record
class Copy:
    """Copy bytes to a block, or to a field, which must not be NULL.

    `lines`: whole lines of the stream's, from and to blocks that start at one.
    """

    source: Place
    target: Field | Place
    bytes: Dim
    lines: bool = False


@record
class Keep:
    """Leave a pointer, which must not be NULL, at a place."""

    pointer: Field
    place: Place


@record
class Seal:
    """What becomes of the tape's seal, a number that follows from the library and the sizes.

    Attributes:
        act: `open` breaks it; `check` refuses a tape without it; `close` writes it if the call
            ended well; `use_up` breaks it unless the call found NULL before it read anything.
    """

    act: Literal["open", "check", "close", "use_up"]


Step = CheckSizes | NotNull | Locate | Call | Copy | Keep | Seal


@record
class EntryPoint:
    """An exported function.

    Attributes:
        name: without the library's.
        parameters: its pointers.
        symbols: the sizes behind them.
        steps: what it does, in order; then it returns the code of a call that does not stop, or OK.
    """

    name: str
    parameters: tuple[str, ...]
    symbols: tuple[str, ...]
    steps: tuple[Step, ...]
