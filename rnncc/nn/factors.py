"""Matrices, stacks of them: solving, determinants, Cholesky's factor, the exponential.

A matrix stands along the last two axes. Rows are eliminated one after another by a loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.arithmetic import sign, times
from rnncc.nn.axes import move_axis, transposed
from rnncc.nn.indexing import extremum_place
from rnncc.nn.linear import matmul
from rnncc.nn.reduction import multiplied, reduce_keepdims
from rnncc.records import record

_DEGREE = 12
_REACH = 1.4616615
"""‖A‖ up to which Taylor's polynomial of degree 12 gives exp(A) to float32's last bit (Bader,
Blanes, Casas 2019, "Computing the matrix exponential with an optimized Taylor polynomial
approximation", table 2)."""
_REACH_OF_DOUBLES = 0.2996158914
"""The same for double precision."""
_SQUARINGS = 12
"""Halvings of A: beyond 2¹² times the reach there is no digit left, and the result is NaN."""


def solve(b: Builder, a: SSAValue, y: SSAValue) -> SSAValue:
    """The x of a x = y, by elimination; NaN where a is singular."""
    *lead, rows, _ = dims_of(a)
    axis = len(lead)
    reduced = _eliminated(b, b.concat([a, y], axis + 1))
    solution = b.slice(reduced.rows, axis + 1, rows, dims_of(y)[-1])
    failed = b.reshape(_first_zero(b, reduced.pivots), (*lead, 1, 1))
    solvable = b.compare("eq", failed, b.full_like(failed, 0))
    return b.select(solvable, solution, b.full_like(solution, math.nan))


def inverse(b: Builder, a: SSAValue) -> SSAValue:
    """The inverses of square matrices; NaN of singular ones."""
    return solve(b, a, identity(b, dims_of(a), dtype_of(a)))


def singular_at(b: Builder, a: SSAValue) -> SSAValue:
    """i32, one for each matrix: the number of the first pivot that is 0, from 1; 0 if none is."""
    return _first_zero(b, _eliminated(b, a).pivots)


def _first_zero(b: Builder, pivots: SSAValue) -> SSAValue:
    return _first(b, b.compare("eq", pivots, b.full_like(pivots, 0.0)))


def determinant(b: Builder, a: SSAValue) -> SSAValue:
    """One for each matrix."""
    reduced = _eliminated(b, a)
    return b.mul(reduced.parity, multiplied(b, reduced.pivots, [len(dims_of(a)) - 2]))


def log_determinant(b: Builder, a: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The sign and ln |det a|, one each for each matrix: 0 and -inf of a singular one."""
    reduced, axes = _eliminated(b, a), [len(dims_of(a)) - 2]
    signs = multiplied(b, sign(b, b.stop_gradient(reduced.pivots)), axes)
    return b.mul(reduced.parity, signs), b.reduce("sum", b.log(b.abs(reduced.pivots)), axes)


@record
class _Elimination:
    """What elimination leaves.

    Attributes:
        rows: with the unit matrix as the first of their columns, where that can be.
        pivots: [..., rows], the elements that rows were divided by, but for zeros.
        parity: [...], 1 or -1: the sign of the order of rows.
    """

    rows: SSAValue
    pivots: SSAValue
    parity: SSAValue


def _eliminated(b: Builder, matrix: SSAValue) -> _Elimination:
    """Gauss and Jordan's, with the largest element of what is left of a column as its pivot.

    Args:
        matrix: at least as many columns as rows.
    """
    *lead, rows, _ = dims_of(matrix)
    axis = len(lead)

    def step(b: Builder, _: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        (both, parity), k = carry, row[0]
        column = _picked(b, both, k, axis + 1)
        open_rows = b.compare("ge", b.iota(dims_of(column), axis), k)
        # Rows that are done never have the largest element.
        size = b.select(open_rows, b.abs(column), b.full_like(column, -1.0))
        place = b.cast(extremum_place(b, size, "max", axis), "i32")
        chosen = b.compare("eq", b.iota(dims_of(both), axis), b.reshape(place, (*lead, 1, 1)))
        pivot_row = b.select(chosen, both, b.full_like(both, 0.0))
        pivot_row = reduce_keepdims(b, "sum", pivot_row, [axis])
        swapped = b.select(chosen, _picked(b, both, k, axis), both)
        pivot = _picked(b, pivot_row, k, axis + 1)
        none = b.compare("eq", pivot, b.full_like(pivot, 0.0))
        # A pivot of 0 is among the results: no NaN has to tell of it, and reach gradients.
        pivot_row = b.div(pivot_row, b.select(none, b.full_like(pivot, 1.0), pivot))
        rest = b.sub(swapped, b.mul(_picked(b, swapped, k, axis + 1), pivot_row))
        is_k = b.compare("eq", b.iota(dims_of(both), axis), k)
        moved = b.compare("ne", b.reshape(place, lead), k)
        parity = b.select(moved, b.neg(parity), parity)
        return [b.select(is_k, pivot_row, rest), parity], [b.reshape(pivot, lead)]

    first = [matrix, b.fill(1.0, lead, dtype_of(matrix))]
    (reduced, parity), (pivots,) = b.scan([], first, [b.iota((rows,), 0)], step)
    return _Elimination(reduced, move_axis(b, pivots, 0, axis), parity)


def _picked(b: Builder, x: SSAValue, k: SSAValue, axis: int) -> SSAValue:
    """x at place k of an axis, which keeps one place; k is known at run time."""
    is_k = b.compare("eq", b.iota(dims_of(x), axis), k)
    return reduce_keepdims(b, "sum", b.select(is_k, x, b.full_like(x, 0.0)), [axis])


def cholesky(b: Builder, a: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The lower l of l lᵀ = a, of symmetric a, and where that failed.

    Only the lower triangle is read; the gradient is spread over both, as that of a symmetric
    matrix. Columns from the failure on are NaN.

    Returns:
        The factor, and i32, one for each matrix: the number of the first leading minor that is not
        positive, from 1; 0 if there is none.
    """
    *lead, rows, _ = dims_of(a)
    axis = len(lead)

    def step(b: Builder, _: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        rest, k = carry[0], row[0]
        column = _picked(b, rest, k, axis + 1)
        square = _picked(b, column, k, axis)
        positive = b.compare("gt", square, b.full_like(square, 0.0))
        root = b.sqrt(b.select(positive, square, b.full_like(square, math.nan)))
        own = b.compare("ge", b.iota(dims_of(column), axis), k)
        factor_column = b.select(own, b.div(column, root), b.full_like(column, 0.0))
        trailing = b.sub(rest, b.mul(factor_column, transposed(b, factor_column)))
        failed = b.logical_not(b.reshape(positive, lead))
        return [trailing], [b.reshape(factor_column, (*lead, rows)), failed]

    _, (columns, failed) = b.scan([], [_symmetric(b, a)], [b.iota((rows,), 0)], step)
    return move_axis(b, columns, 0, axis + 1), _first(b, move_axis(b, failed, 0, axis))


def _symmetric(b: Builder, a: SSAValue) -> SSAValue:
    """The lower triangle and its mirror; gradients go to both alike."""
    value = b.stop_gradient(a)
    mirrored = b.select(_below(b, a), value, transposed(b, value))
    mean = times(b, b.add(a, transposed(b, a)), 0.5)
    return b.add(mirrored, b.sub(mean, b.stop_gradient(mean)))


def solve_triangular(
    b: Builder, a: SSAValue, y: SSAValue, upper: bool = False, unit: bool = False
) -> SSAValue:
    """The x of a x = y by substitution; the other triangle is not read.

    Args:
        a: [..., n, n].
        y: [..., n, k].
        upper: whether a is an upper triangle.
        unit: whether its diagonal is taken as ones.
    """
    *lead, rows, _ = dims_of(a)
    axis, count = len(lead), dims_of(y)[-1]

    def step(b: Builder, consts: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        (a,), rhs, k = consts, carry[0], row[0]
        column, solved = _picked(b, a, k, axis + 1), _picked(b, rhs, k, axis)
        if not unit:
            solved = b.div(solved, _picked(b, column, k, axis))
        rest = b.compare("lt" if upper else "gt", b.iota(dims_of(column), axis), k)
        factor = b.select(rest, column, b.full_like(column, 0.0))
        return [b.sub(rhs, b.mul(factor, solved))], [b.reshape(solved, (*lead, count))]

    _, (solved,) = b.scan([a], [y], [b.iota((rows,), 0)], step, reverse=upper)
    return move_axis(b, solved, 0, axis)


def reflections(b: Builder, vectors: SSAValue, scales: SSAValue) -> SSAValue:
    """The first columns of H₁ H₂ ..., Hᵢ = I - sᵢ vᵢ vᵢᵀ: as many as there are vectors.

    Args:
        vectors: [..., m, n], m >= n; vᵢ is column i below its diagonal, with 1 on it.
        scales: [..., k], k <= n.
    """
    *lead, rows, columns = dims_of(vectors)
    axis = len(lead)

    def step(b: Builder, consts: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        (vectors, scales), q, k = consts, carry[0], row[0]
        v = _reflector(b, _picked(b, vectors, k, axis + 1), k)
        s = b.reshape(_picked(b, scales, k, axis), (*lead, 1, 1))
        return [_reflected(b, q, v, s)], []

    numbers = b.iota((dims_of(scales)[-1],), 0)
    start = identity(b, (*lead, rows, rows), dtype_of(vectors))
    (q,), _ = b.scan([vectors, scales], [start], [numbers], step)
    return b.slice(q, axis + 1, 0, columns)


def orthogonal_factors(b: Builder, a: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The q and r of q r = a, by Householder's reflections with the signs of LAPACK's geqrf.

    Args:
        a: [..., m, n], of known m and n; q is [..., m, k], r [..., k, n], k the smaller of them.
    """
    *lead, rows, columns = dims_of(a)
    axis, kind, least = len(lead), dtype_of(a), Dim.of(min(int(rows), int(columns)))

    def step(b: Builder, _: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        (q, r), k = carry, row[0]
        column = _picked(b, r, k, axis + 1)
        below = b.compare("gt", b.iota(dims_of(column), axis), k)
        first = _picked(b, column, k, axis)
        rest = b.select(below, column, b.full_like(column, 0.0))
        tail = reduce_keepdims(b, "sum", b.mul(rest, rest), [axis])
        done = b.compare("eq", tail, b.full_like(tail, 0.0))
        one = b.full_like(first, 1.0)
        length = b.sqrt(b.select(done, one, b.add(b.mul(first, first), tail)))
        negative = b.compare("lt", first, b.full_like(first, 0.0))
        new = b.select(negative, length, b.neg(length))
        v = _reflector(b, b.div(column, b.select(done, one, b.sub(first, new))), k)
        s = b.select(done, b.full_like(one, 0.0), b.div(b.sub(new, first), new))
        turned = transposed(b, _reflected(b, transposed(b, r), v, s))
        return [_reflected(b, q, v, s), turned], []

    start = identity(b, (*lead, rows, rows), kind)
    (q, r), _ = b.scan([], [start, a], [b.iota((least,), 0)], step)
    r = b.slice(r, axis, 0, least)
    above = b.compare("ge", b.iota(dims_of(r), axis + 1), b.iota(dims_of(r), axis))
    return b.slice(q, axis + 1, 0, least), b.select(above, r, b.full_like(r, 0.0))


def _reflector(b: Builder, column: SSAValue, k: SSAValue) -> SSAValue:
    """A column below place k, with 1 at it."""
    place = b.iota(dims_of(column), len(dims_of(column)) - 2)
    at, below = b.compare("eq", place, k), b.compare("gt", place, k)
    one = b.full_like(column, 1.0)
    return b.select(at, one, b.select(below, column, b.full_like(column, 0.0)))


def _reflected(b: Builder, x: SSAValue, v: SSAValue, scale: SSAValue) -> SSAValue:
    """x (I - scale v vᵀ)"""
    return b.sub(x, b.mul(matmul(b, x, v), transposed(b, b.mul(scale, v))))


def exponential(b: Builder, a: SSAValue) -> SSAValue:
    """exp(a) = exp(a / 2ˢ)^(2ˢ): Taylor's polynomial, squared as often as a's norm asks for."""
    doubles = dtype_of(a) == "f64"
    norm = b.reduce("max", b.reduce("sum", b.abs(a), [len(dims_of(a)) - 2]), [len(dims_of(a)) - 2])
    norm = b.stop_gradient(b.reshape(norm, (*dims_of(norm), 1, 1)))
    size, scale, squared = norm, b.full_like(norm, 1.0), list[SSAValue]()
    for _ in range(_SQUARINGS):
        squared.append(_beyond(b, size, doubles))
        half = b.select(squared[-1], b.full_like(size, 0.5), b.full_like(size, 1.0))
        size, scale = b.mul(size, half), b.mul(scale, half)

    def step(b: Builder, _: Values, carry: Values, again: Values) -> tuple[Values, Values]:
        power = carry[0]
        return [b.select(again[0], matmul(b, power, power), power)], []

    flags = b.concat([b.reshape(flag, (1, *dims_of(flag))) for flag in reversed(squared)], 0)
    (powered,), _ = b.scan([], [_taylor(b, b.mul(a, scale))], [flags], step)
    return b.select(_beyond(b, size, doubles), b.fill(math.nan, (), dtype_of(a)), powered)


def _beyond(b: Builder, norm: SSAValue, doubles: bool) -> SSAValue:
    return b.compare("gt", norm, b.full_like(norm, _REACH_OF_DOUBLES if doubles else _REACH))


def _taylor(b: Builder, a: SSAValue) -> SSAValue:
    """Σ aⁱ / i! by Paterson and Stockmeyer: polynomials of degree 3 in powers of a⁴."""
    one = identity(b, dims_of(a), dtype_of(a))
    a2 = matmul(b, a, a)
    a3 = matmul(b, a2, a)
    powers, a4 = [one, a, a2, a3], matmul(b, a2, a2)
    total = times(b, a4, 1 / math.factorial(_DEGREE))
    for start in range(_DEGREE - 4, -1, -4):
        for i, power in enumerate(powers):
            total = b.add(total, times(b, power, 1 / math.factorial(start + i)))
        total = matmul(b, a4, total) if start else total
    return total


def identity(b: Builder, dims: Sequence[Dim], dtype: str) -> SSAValue:
    """1 where the last two places are equal, 0 elsewhere."""
    rank = len(dims)
    return b.cast(b.compare("eq", b.iota(dims, rank - 1), b.iota(dims, rank - 2)), dtype)


def _below(b: Builder, a: SSAValue) -> SSAValue:
    """Where a matrix is on its diagonal or below it."""
    rank = len(dims_of(a))
    columns = b.iota(dims_of(a), rank - 1)
    return b.compare("le", columns, b.iota(dims_of(a), rank - 2))


def _first(b: Builder, flags: SSAValue) -> SSAValue:
    """The number, from 1, of the first flag along the last axis; 0 where none is set."""
    axis, count = len(dims_of(flags)) - 1, dims_of(flags)[-1]
    none = b.size(count, "i32")
    place = b.reduce("min", b.select(flags, b.iota(dims_of(flags), axis), none), [axis])
    exists = b.compare("lt", place, none)
    return b.select(exists, b.add(place, b.full_like(place, 1)), b.full_like(place, 0))
