"""Two kernels in one pass: what it may read while it writes."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer
from rnncc.planning.phases import lie_apart


def is_scratch(value: SSAValue) -> bool:
    """Whether a value is all of a block in the workspace, which is no part of the tape."""
    buffer = value.owner
    return isinstance(buffer, Buffer) and buffer.role.data == "scratch" and buffer.within is None


def is_read_in_time(value: SSAValue, access: Access | None, out: Buffer, written: Access) -> bool:
    """Whether a pass has read all of a value's elements before it writes into their memory.

    Args:
        access: of the value, where each element is read just before that place is written; None
            where it is read at other places, too.
        out, written: scratch that the pass writes, and its access.
    """
    buffer = value.owner
    if not isinstance(buffer, Buffer):
        return False
    # Neither lies in the workspace, unless scratch takes the place of an absent input.
    if buffer.role.data in ("input", "param") and buffer.default is None:
        return True
    instead = buffer.offset == out.offset and buffer.dtype == out.dtype and access == written
    return is_scratch(value) and (instead or lie_apart(buffer, out))
