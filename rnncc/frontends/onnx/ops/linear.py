"""Matrices: MatMul, Gemm, Einsum, Det."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, NUMBERS, Node, OnnxOperator
from rnncc.frontends.onnx.ops.integer_products import dequantised_product
from rnncc.frontends.onnx.weights import weights
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of, shape_text
from rnncc.nn.arithmetic import times
from rnncc.nn.factors import determinant
from rnncc.nn.indexing import diagonal
from rnncc.nn.linear import matmul


def _matmul(n: Node) -> SSAValue:
    """A B over the last two axes, the leading ones with NumPy's broadcasting.

    Refused: elements other than floats, int32, int64.
    """
    whole = dequantised_product(n)
    if whole is not None:
        return whole
    return matmul(n.b, n.x(0, NUMBERS), weights(n, 1, NUMBERS))


def general_product(n: Node) -> SSAValue:
    """alpha · A B + beta · C; A and B may be transposed.

    Refused: elements other than floats.
    """
    b, x, y = n.b, n.x(0, FLOATS), weights(n, 1)
    if len(dims_of(x)) != 2 or len(dims_of(y)) != 2:
        raise n.error(f"multiplies {shape_text(dims_of(x))} by {shape_text(dims_of(y))}")
    by_unit = n.flag("transB", 0)
    whole = None if n.flag("transA", 0) else dequantised_product(n, by_unit)
    scaled = b.matmul(x, y, n.flag("transA", 0), by_unit) if whole is None else whole
    alpha, beta = n.real("alpha", 1.0), n.real("beta", 1.0)
    scaled = scaled if alpha == 1 else times(b, scaled, alpha)
    added = n.maybe(2, FLOATS)
    if added is None or beta == 0:  # then ONNX Runtime leaves C out, whatever it holds
        return scaled
    return n.like(b.add(scaled, added if beta == 1 else times(b, added, beta)), scaled)


def _einsum(n: Node) -> SSAValue:
    """Sums of products by letters: any number of operands, one after another.

    Refused: elements other than floats, int32, int64.
    """
    values = [n.x(i, NUMBERS) for i in range(len(n.inputs))]
    terms, result = letters_of(n, [len(dims_of(v)) for v in values])
    for index, operand in enumerate(zip(values, terms, strict=True)):
        values[index], terms[index] = _once_each(n, operand)
    value, term = values[0], terms[0]
    for k in range(1, len(values)):
        later = {c for t in terms[k + 1 :] for c in t} | set(result)
        value, term = _contract(n, (value, term), (values[k], terms[k]), later)
    reduced = [axis for axis, letter in enumerate(term) if letter not in result]
    value = n.b.reduce("sum", value, reduced) if reduced else value
    term = [letter for letter in term if letter in result]
    if sorted(term) != sorted(result):
        raise n.error("asks for an axis that no operand has")
    return n.b.transpose(value, [term.index(letter) for letter in result])


Term = tuple[SSAValue, list[str]]
_MARKS = str.maketrans("", "", ",.->")
"""What an equation holds beside letters."""


def letters_of(n: Node, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """The letters of operands' axes and of the result's; an ellipsis becomes numbers."""
    text = n.text("equation").replace(" ", "")
    left, arrow, right = text.partition("->")
    if not all(c.isascii() and c.isalpha() for c in text.translate(_MARKS)):
        raise n.error(f"has the equation {text[:80]!r}, which holds more than letters")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise n.error(f"has {len(ranks)} inputs for the equation {text[:80]!r}")
    most = max(
        r - len(p.replace("...", "")) if "..." in p else 0
        for p, r in zip(parts, ranks, strict=True)
    )
    terms = list[list[str]]()
    for part, rank in zip(parts, ranks, strict=True):
        hidden = rank - len(part.replace("...", "")) if "..." in part else 0
        numbers = [str(i) for i in range(most - hidden, most)]
        before, dots, behind = part.partition("...")
        terms.append([*before, *numbers, *behind] if dots else list(part))
        if len(terms[-1]) != rank or hidden < 0:
            raise n.error(f"has an input of {rank} axes for {part!r} in {text[:80]!r}")
    every = [str(i) for i in range(most)]
    if arrow:
        before, dots, behind = right.partition("...")
        return terms, [*before, *every, *behind] if dots else list(right)
    letters = [c for t in terms for c in t if not c.isdigit()]
    return terms, every + sorted(c for c in set(letters) if letters.count(c) == 1)


def _once_each(n: Node, term: Term) -> Term:
    """An operand with the diagonals of axes that have one letter."""
    x, letters = term
    for letter in [c for c in dict.fromkeys(letters) if letters.count(c) > 1]:
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            sizes = dims_of(x)[first], dims_of(x)[second]
            if sizes[0] != sizes[1]:
                what = f"has the sizes {sizes[0]} and {sizes[1]} for one axis"
                raise n.differ(sizes[:1], sizes[1:], what)
            x = diagonal(n.b, x, (first, second), sizes[0])
            letters = [c for i, c in enumerate(letters) if i not in (first, second)] + [letter]
    return x, letters


def _contract(n: Node, left: Term, right: Term, kept: set[str]) -> Term:
    """Two operands as one product of matrices, or stacks of them."""
    b = n.b
    (x, p), (y, q) = _summed(b, left, [*right[1], *kept]), _summed(b, right, [*left[1], *kept])
    both = [c for c in p if c in q and c in kept]
    summed = [c for c in p if c in q and c not in kept]
    mine, other = ([c for c in t if c not in (*both, *summed)] for t in (p, q))
    sizes = _sizes(n, (x, p), (y, q))
    x = _arranged(b, x, p, both, mine, summed, sizes)
    y = _arranged(b, y, q, both, summed, other, sizes)
    sums = matmul(b, x, y)
    letters = [*both, *mine, *other]
    return b.reshape(sums, [sizes[c] for c in letters]), letters


def _summed(b: Builder, term: Term, kept: list[str]) -> Term:
    """Without the axes that only this operand has."""
    reduced = [axis for axis, c in enumerate(term[1]) if c not in kept]
    if not reduced:
        return term
    return b.reduce("sum", term[0], reduced), [c for c in term[1] if c in kept]


def _sizes(n: Node, *terms: Term) -> dict[str, Dim]:
    size_of = dict[str, Dim]()
    for value, letters in terms:
        for size, c in zip(dims_of(value), letters, strict=True):
            if size_of.get(c, size) not in (size, 1) and size != 1:
                what = f"has the sizes {size_of[c]} and {size} for one axis"
                raise n.differ([size_of[c]], [size], what)
            size_of[c] = size if size_of.get(c, Dim.of(1)) == 1 else size_of[c]
    return size_of


def _arranged(
    b: Builder,
    x: SSAValue,
    letters: list[str],
    lead: list[str],
    rows: list[str],
    columns: list[str],
    sizes: dict[str, Dim],
) -> SSAValue:
    """A stack of matrices."""
    order = [*lead, *rows, *columns]
    x = b.transpose(x, [letters.index(c) for c in order])
    x = b.broadcast(x, [sizes[c] for c in order], range(len(order)))
    shape = [sizes[c] for c in lead]
    return b.reshape(
        x, (*shape, product(sizes[c] for c in rows), product(sizes[c] for c in columns))
    )


def _determinant(n: Node) -> SSAValue:
    """The determinants of the matrices along the last two axes, by elimination of rows.

    Refused: elements other than floats; matrices that are not known to be square.
    """
    return determinant(n.b, square_matrices(n))


def square_matrices(n: Node) -> SSAValue:
    """The first input, of which the last two axes are equal."""
    x, dims = n.x(0, FLOATS), n.dims()
    shown = f"is given {shape_text(dims)}, expected square matrices"
    if len(dims) < 2:
        raise n.error(shown)
    if dims[-1] != dims[-2]:
        raise n.differ(dims[-2:-1], dims[-1:], shown)
    return x


OPERATORS: dict[str, OnnxOperator] = {
    "Det": OnnxOperator(_determinant),
    "MatMul": OnnxOperator(_matmul),
    "Gemm": OnnxOperator(general_product),
    "Einsum": OnnxOperator(_einsum),
}
