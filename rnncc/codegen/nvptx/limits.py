"""Limits that device code, host code and the loader share (include/rnncc_cuda.h)."""

from __future__ import annotations

from enum import IntEnum

from rnncc.kern.signatures import SYNC_BYTES as SYNC_BYTES

POINTERS = ("weights", "workspace", "sync", "status", "seal")
"""The first parameters of a kernel; the seal's value follows, then inputs, outputs and sizes."""
WARP = 32
"""Threads of a warp, on every chip of NVIDIA's so far."""
STUCK = 9
"""The code of a wait that took longer than `PATIENCE`."""
PATIENCE = 1 << 25
"""Looks at a counter, with a pause of 200 ns each: about 20 s, and longer than any phase of a call.
Reading a clock would take longer than a look."""

CONTRACT_TILE = 128
"""Rows of a tile of weights' gradients on tensor cores; columns are as many, or twice as many."""
MOST_PARTS, ENOUGH_TILES = 16, 384
"""Parts of k of such a tile, at most, and tiles of parts that all chips are busy with."""

EXCHANGED_ROWS = 64
"""Of a batch that go from iteration to iteration as single words; for more, a wait costs little."""


def room_bytes(depth: int) -> int:
    """Of those words, 64 bits for two neighbours, for even and odd iterations."""
    return 2 * EXCHANGED_ROWS * -(-depth // 2) * 8


def contract_tile(columns: int) -> tuple[int, int]:
    """Rows and columns of a tile of such a gradient, given how many columns it has."""
    # A thread has registers for 128 sums. Gates stand side by side: columns are the longer side.
    return CONTRACT_TILE, CONTRACT_TILE * (2 if columns > CONTRACT_TILE else 1)


def parts_of(rows: int, columns: int) -> int:
    """Of k, in a rounded sum of outer products: by its sizes alone, so that its bits are."""
    height, width = contract_tile(columns)
    tiles = -(-rows // height) * -(-columns // width)
    return max(1, min(MOST_PARTS, ENOUGH_TILES // tiles))


def parts_room(rows: int, columns: int) -> int:
    """Floats that the parts' sums take until they are added up; none where there is one."""
    parts = parts_of(rows, columns)
    return parts * rows * columns if parts > 1 else 0


class Sync(IntEnum):
    """32-bit words, those before `FAILED` cleared before each further launch of a call: how often
    blocks came to the grid's barrier, an error that a kernel has found, how often blocks came to
    the barriers of teams, the error that a launch ended with. The teams' are on a line of their
    own, as the blocks that are in no team keep looking at the first."""

    COUNTER = 0
    FOUND = 2
    TEAM = 32
    FAILED = SYNC_BYTES // 4 - 1
