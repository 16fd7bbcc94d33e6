"""A kernel's domain as loops: axes that run on in memory become one, axes of size 1 go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rnncc.ir.dims import Dim
from rnncc.kern.access import Access
from rnncc.kern.kernels import Index, Kernel
from rnncc.records import record


@record
class Nest:
    """Loops over `dims`, outermost first; `axes[i]` is the domain's axis that loop i runs along.

    `accesses` are over these loops.
    """

    dims: tuple[Dim, ...]
    axes: tuple[int, ...]
    accesses: tuple[Access, ...]


def make_nest(dims: Sequence[Dim], accesses: Sequence[Access], apart: Sequence[int]) -> Nest:
    """Merge neighbouring axes where every access steps through them evenly.

    Args:
        apart: axes that stay loops of their own, since their index matters.
    """
    kept: list[tuple[Dim, int, list[Dim]]] = []
    for axis, size in enumerate(dims):
        if size == 1 and axis not in apart:
            continue
        strides = [a.strides[axis] for a in accesses]
        if kept and axis not in apart and kept[-1][1] not in apart:
            outer, _, above = kept[-1]
            # One step of the outer axis is all of the inner one.
            if all(up == s * size for up, s in zip(above, strides, strict=True)):
                kept[-1] = (outer * size, axis, strides)
                continue
        kept.append((size, axis, strides))
    merged = tuple(
        Access(a.offset, tuple(strides[i] for _, _, strides in kept))
        for i, a in enumerate(accesses)
    )
    return Nest(tuple(d for d, _, _ in kept), tuple(a for _, a, _ in kept), merged)


def indexed_axes(kernel: Kernel) -> list[int]:
    """The axes whose index the kernel's body reads."""
    return [op.axis.data for op in kernel.body.block.ops if isinstance(op, Index)]


def split_nest(kernel: Kernel, accesses: Sequence[Access], first: int) -> tuple[Nest, Nest]:
    """Loops over the first axes of a domain, and over those behind them."""
    indexed, parts = indexed_axes(kernel), list[Nest]()
    for start, end in ((0, first), (first, len(kernel.dims))):
        own = [Access(a.offset, a.strides[start:end]) for a in accesses]
        apart = [axis - start for axis in indexed if start <= axis < end]
        nest = make_nest(kernel.dims[start:end], own, apart)
        parts.append(replace(nest, axes=tuple(start + axis for axis in nest.axes)))
    return parts[0], parts[1]


def joined(outer: Nest, inner: Nest) -> Nest:
    """The loops of two nests over the axes of one domain, one within the other."""
    accesses = [
        Access(a.offset, (*a.strides, *b.strides))
        for a, b in zip(outer.accesses, inner.accesses, strict=True)
    ]
    return Nest((*outer.dims, *inner.dims), (*outer.axes, *inner.axes), tuple(accesses))
