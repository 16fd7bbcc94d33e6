"""Which elements an access touches, as formulas, and whether some cover others at every size."""

from __future__ import annotations

from collections.abc import Sequence

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import ONE, Dim
from rnncc.ir.size_proofs import at_most
from rnncc.kern.access import Access
from rnncc.kern.dialect import For
from rnncc.records import record

Axis = tuple[Dim, Dim]
"""Size and stride."""


@record
class Footprint:
    """The elements offset + Σ stride · index, index from 0 below size on each axis."""

    offset: Dim
    axes: tuple[Axis, ...]

    @staticmethod
    def of(access: Access, dims: Sequence[Dim]) -> Footprint:
        """The elements of an access over a domain."""
        pairs = zip(dims, access.strides, strict=True)
        return Footprint(access.offset, tuple((n, stride) for n, stride in pairs if n != 1))

    @property
    def end(self) -> Dim:
        """Past the last element, if no stride is negative and no size zero."""
        return sum(((size - 1) * stride for size, stride in self.axes), self.offset + 1)

    def over_iterations(self, loop: For) -> Footprint | None:
        """The elements of all iterations of a loop; None where they are no such set."""
        index, start, count = loop.index.data, get_dim(loop.start), get_dim(loop.count)
        names = {index} | {name.data for name in (loop.extent, loop.iteration) if name is not None}
        if any(names & (size.symbols | stride.symbols) for size, stride in self.axes):
            return None
        if loop.chunk is not None and names & self.offset.symbols:
            return None  # the last chunk is shorter: no one stride
        if any(names & atom.inner.symbols for atom in self.offset.atoms):
            return None  # quotients and maxima are not linear in the index
        first, second, third = (self.offset.substitute({index: start + i}) for i in range(3))
        if third - second != second - first:
            return None
        return Footprint(first, (*self.axes, (count, second - first)))


def covered(needed: Footprint, written: Sequence[Footprint]) -> bool:
    """Whether all needed elements are surely among those written, at every size."""
    read = Footprint(needed.offset, tuple(axis for axis in needed.axes if axis[1] != 0))
    if not all(at_most(Dim.of(0), stride) for _, stride in read.axes):
        return False  # `end` would be the wrong end
    read = _nested(read)
    return any(_holds(whole, read) for whole in _united([_nested(w) for w in written]))


def _holds(written: Footprint, read: Footprint) -> bool:
    if written == read:
        return True
    # between the first and the last element of a dense write all are written
    gapless = not written.axes or (len(written.axes) == 1 and written.axes[0][1] == 1)
    return gapless and at_most(written.offset, read.offset) and at_most(read.end, written.end)


def _nested(footprint: Footprint) -> Footprint:
    """The same elements on the fewest axes: one that strides over just another joins it."""
    # Strides are formulas, which have no order by size; in any fixed one equal footprints compare
    # equal.
    axes = sorted(footprint.axes, key=lambda axis: str(axis[1]))
    while pair := next(
        ((a, b) for a in axes for b in axes if a is not b and b[1] == a[0] * a[1]), None
    ):
        (size, stride), (count, _) = pair
        for axis in pair:
            axes.remove(axis)
        axes.append((size * count, stride))
    return Footprint(footprint.offset, tuple(sorted(axes, key=lambda axis: str(axis[1]))))


def _united(parts: Sequence[Footprint]) -> list[Footprint]:
    """The same elements in fewer parts: those that continue others join them."""
    done, pending = list[Footprint](), list(parts)
    while pending:
        part = pending.pop()
        for other in pending:
            joined = _joined(part, other) or _joined(other, part)
            if joined is not None:
                pending.remove(other)
                pending.append(joined)
                break
        else:
            done.append(part)
    return done


def _joined(a: Footprint, b: Footprint) -> Footprint | None:
    """Both together, where b goes on along an axis where a ends; the other axes are the same."""
    step = b.offset - a.offset
    same = [axis for axis in a.axes if axis in b.axes]
    only_a, only_b = ([axis for axis in part.axes if axis not in same] for part in (a, b))
    if not only_a and not only_b:
        along = next((axis for axis in same if axis[0] * axis[1] == step), (ONE, ONE))
        same = [axis for axis in same if axis != along]
        only_a = only_b = [along]
    if len(only_a) > 1 or len(only_b) > 1 or len(set(same)) < len(same):
        return None
    m, stride = only_a[0] if only_a else (ONE, only_b[0][1])
    n, other = only_b[0] if only_b else (ONE, stride)
    if stride != other or step != m * stride:
        return None
    return _nested(Footprint(a.offset, (*same, (m + n, stride))))
