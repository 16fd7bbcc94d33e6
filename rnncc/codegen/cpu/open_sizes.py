"""Kernels that differ in their numbers alone: names stand in place of these, for one function."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Operation

from rnncc.codegen.cpu.gemm.sizes import GemmSizes
from rnncc.codegen.cpu.gemm.terms import Terms
from rnncc.codegen.cpu.machine.core import Core
from rnncc.ir.attributes import dims_attr, get_dims
from rnncc.ir.dims import Dim
from rnncc.ir.monomials import Monomial, Term
from rnncc.ir.types import FLOATS, ITEM_BYTES
from rnncc.kern.access import FAR, buffer_dtype
from rnncc.kern.kernels import Gemm, Kernel, Map, Reduce
from rnncc.records import record


@record
class OpenedKernel:
    """A kernel whose numbers are names.

    Attributes:
        properties: those that differ from the kernel's own.
        numbers: what the names stand for.
        product: of a product, its sizes, named too.
    """

    properties: dict[str, Attribute]
    numbers: dict[str, int]
    product: GemmSizes | None = None

    @staticmethod
    def of(target: Core, op: Operation) -> OpenedKernel | None:
        """None for a kernel whose code depends on its numbers."""
        if isinstance(op, Gemm):
            return _opened_product(target, op)
        return _opened(op) if isinstance(op, Map | Reduce) else None

    def kernel(self, op: Operation) -> Operation:
        """The kernel with names in place of its numbers; whoever is done with it drops it."""
        clone = op.clone()
        clone.properties |= self.properties
        return clone


def _opened_product(target: Core, op: Gemm) -> OpenedKernel | None:
    """What is read and written of units must be dense: else each is code of its own."""
    reads = all(access.strides[-1] in (0, 1) for access in op.in_accesses)
    writes = all(access.strides[-1] == 1 for access in op.out_accesses)
    dtype = buffer_dtype(op.weights)
    if dtype not in FLOATS or op.k_sizes is not None or not (reads and writes):
        return None
    unit_bytes = op.slots.data * op.depth.data * ITEM_BYTES[dtype]
    sizes, opened = GemmSizes.of(target.of(dtype), op, unit_bytes, Terms.chains), _opened(op)
    return OpenedKernel(opened.properties, {**opened.numbers, **sizes.numbers}, sizes.named)


def _opened(op: Kernel) -> OpenedKernel:
    names = _SizeNames()
    # How many terms a sum has decides how its lanes lie.
    kept = len(op.dims) - (op.reduced.data if isinstance(op, Reduce) else 0)
    properties: dict[str, Attribute] = {
        "domain": dims_attr([*names.dims(op.dims[:kept]), *op.dims[kept:]]),
        "accesses": ArrayAttr(map(names.access, op.accesses)),
    }
    if isinstance(op, Gemm):
        left = _SizeNames("_a")  # whose numbers may be equal to others or not
        properties["a_access"] = left.access(op.a_access)
        properties["depth"] = IntAttr(0)
        names.numbers |= left.numbers
    return OpenedKernel(properties, names.numbers)


class _SizeNames:
    """Numbers and their names. Small ones stay: vectors depend on the steps that they take.

    So do factors of products of sizes, as formulas must not grow too long.
    """

    def __init__(self, prefix: str = "_") -> None:
        self.prefix, self.numbers = prefix, dict[str, int]()
        self._names = dict[int, str]()

    def access(self, access: Attribute) -> ArrayAttr[StringAttr]:
        return dims_attr(self.dims(get_dims(access)))

    def dims(self, dims: Sequence[Dim]) -> list[Dim]:
        return [Dim(self._term(*term) for term in dim.terms) for dim in dims]

    def _term(self, monomial: Monomial, factor: int) -> Term:
        if abs(factor) <= FAR or len(monomial) > 1:
            return monomial, factor
        name = self._names.setdefault(abs(factor), f"{self.prefix}{len(self._names)}")
        self.numbers[name] = abs(factor)
        return (*monomial, name), factor // abs(factor)
