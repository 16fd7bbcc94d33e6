"""Packed weights: arrays of the library where they are known, packed at the call where not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.builder import Builder as OpBuilder
from xdsl.ir import Block, SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.ops.source import Constant, Param
from rnncc.ir.precision import MOST_DEPTH, quantise_units, to_bf16
from rnncc.ir.types import ITEM_BYTES, NUMPY, dims_of, dtype_of
from rnncc.kern import moves
from rnncc.kern.access import Access, buffer_dtype, packed_elements
from rnncc.kern.dialect import Buffer
from rnncc.kern.packing import GROUP, OFFSET, PackedGeometry, pack, packed_depth
from rnncc.lowering.maps import Placed, is_view
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.codegen.target import Target
    from rnncc.lowering.walk import Lowering


@record
class ProductOperands:
    """What a product takes: weights; scales where they are integers; room for rows."""

    buffer: SSAValue
    geometry: PackedGeometry
    converted: tuple[SSAValue | None, SSAValue | None] = (None, None)


class WeightTable:
    """Arrays that the library holds, and the packed forms made of them, each made once.

    Before:

        v1 = matmul(x, w)
        return v1

    After:

        scratch packed: 20
        pack packed = w
        gemm i in N, j in 4: y = x·packed

    Attributes:
        precision: of the packed forms of arrays that the library holds.
    """

    precision = "fp32"

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering
        self._arrays: dict[SSAValue, np.ndarray[Any, Any]] = {}
        self._params: dict[str, Placed] = {}
        self._packed: dict[object, SSAValue] = {}
        self._scales: dict[SSAValue, SSAValue] = {}

    def keep(self, buffer: SSAValue, array: np.ndarray[Any, Any]) -> None:
        """Make an array the contents of a `param` buffer."""
        flat = np.ascontiguousarray(array, NUMPY[buffer_dtype(buffer)]).reshape(-1)
        self._arrays[buffer] = flat
        self._lowering.result.arrays[_label(buffer)] = flat

    def param(self, op: Param) -> Placed:
        """Known parameters are constants of the library, others inputs; declared once a name."""
        name, lowering = op.param_name.data, self._lowering
        if name not in self._params:
            array = lowering.program.arrays.get(name)
            role = "input" if array is None else "param"
            self._params[name] = lowering.declare(name, role, dtype_of(op.y), dims_of(op.y))
            if array is not None:
                self.keep(self._params[name].buffer, array)
        return self._params[name]

    def are_known(self, value: SSAValue) -> bool:
        """Whether a value, or what it is a view of in this block or around it, is a known array."""
        lowering = self._lowering
        while is_view(value.owner) or value in lowering.outer:
            value, row = (value.owner.x, None) if is_view(value.owner) else lowering.outer[value]
            # A row of a sequence is another matrix in each step.
            if row is not None:
                return False
        op = value.owner
        has_array = isinstance(op, Param) and op.param_name.data in lowering.program.arrays
        return has_array or isinstance(op, Constant)

    def item_bytes(self, value: SSAValue) -> int:
        """Bytes of a matrix's element as products read it."""
        dtype = dtype_of(value)
        if dtype == "f32" and self.are_known(value):
            dtype = self._lowering.target.weights_dtype(self.precision)
        return ITEM_BYTES[dtype]

    def serve_once(self, op: Matmul) -> bool:
        """Whether one row alone is multiplied by a matrix where that is computed or an input.

        To pack it would take longer than the product. Parameters stay packed, known or not, so that
        training computes what inference does.
        """
        # Over several rows packing pays: each row reads the whole matrix.
        if any(d != 1 for d in dims_of(op.y)[:-1]):
            return False
        value = op.b
        while is_view(value.owner):
            value = value.owner.x
        block = value.owner if isinstance(value.owner, Block) else value.owner.parent
        is_known = isinstance(value.owner, Param | Constant) or value in self._lowering.outer
        return block is op.parent and not is_known

    def constant(self, op: Constant) -> Placed:
        """A constant of the library without a name."""
        placed = self._lowering.declare("constant", "param", dtype_of(op.y), dims_of(op.y))
        self.keep(placed.buffer, op.array())
        return placed

    def packed(self, op: Matmul, starts: list[int], units: int) -> ProductOperands:
        """The right operand's columns from each of `starts` on, `units` of them, packed."""
        lowering = self._lowering
        place = lowering.place(op.b)
        row, column = (0, 1) if op.transpose_b else (1, 0)
        depth = int(dims_of(op.b)[column])
        strides = place.access.strides[row], place.access.strides[column]
        sources = [Access(place.access.offset + strides[0] * s, strides) for s in starts]
        is_held = place.buffer in self._arrays and place.access.offset.is_static
        dtype = self._stored(place.buffer, depth) if is_held else buffer_dtype(place.buffer)
        target = lowering.target.of(dtype_of(op.b))
        slots, panel = len(starts), target.panel(len(starts), units, dtype, depth)
        geometry = PackedGeometry(depth, slots, panel, target.stripe(slots, panel))
        key = (place.buffer, tuple(sources), units, geometry)
        if key not in self._packed:
            # Known weights are packed while compiling and lie in the library as tiles read them;
            # what the caller hands over is packed by the call.
            if is_held:
                packed = self._pack_now(place.buffer, sources, units, geometry)
            else:
                home = self._home(op.b, place)
                packed = self._pack_later(place.buffer, sources, units, geometry, home)
                # A matrix that changes from step to step is packed for this product alone, so it is
                # not noted.
                if home is None:
                    return ProductOperands(packed, geometry)
            self._packed[key] = packed
        packed = self._packed[key]
        return ProductOperands(packed, geometry, self._converted(packed, depth))

    def _converted(self, packed: SSAValue, depth: int) -> tuple[SSAValue | None, SSAValue | None]:
        """The scales of integers, and room for a product's rows where they are converted."""
        lowering, scales = self._lowering, self._scales.get(packed)
        size = lowering.target.row_bytes(buffer_dtype(packed), depth)
        if not size:
            return None, None
        return scales, lowering.declare("rows", "scratch", "u8", [Dim.of(size)]).buffer

    def _home(self, value: SSAValue, place: Placed) -> OpBuilder | None:
        """Where a matrix that no loop changes is packed, once; None for one that changes."""
        lowering, owner = self._lowering, place.buffer.owner
        if not place.access.offset.symbols <= {*lowering.result.symbols}:
            return None  # a row of some loop's
        if isinstance(owner, Buffer) and owner.role.data == "input":
            return lowering.builders[0]
        row = None
        while value in lowering.outer and row is None:
            value, row = lowering.outer[value]
        block = value.owner if isinstance(value.owner, Block) else value.owner.parent
        outside = block is not None and lowering.depths.get(block) == 0
        return lowering.builders[0] if outside and row is None else None

    def _pack_now(
        self, buffer: SSAValue, sources: list[Access], units: int, geometry: PackedGeometry
    ) -> SSAValue:
        flat, slack = self._arrays[buffer], self._target(buffer).slack
        matrices = [_matrix(flat, source, units, geometry.depth) for source in sources]
        dtype = self._stored(buffer, geometry.depth)
        scales: list[np.ndarray[Any, Any]] = []
        if dtype in ("i8", "u8") and buffer_dtype(buffer) == "f32":
            whole = [quantise_units(m) for m in matrices]
            matrices, scales = [m for m, _ in whole], [s[:, None] for _, s in whole]
        if dtype == "u8":
            # The instruction multiplies unsigned by signed bytes: weights are shifted to be
            # unsigned, and each row's sum starts at what takes the shift back.
            matrices = [(m.astype(np.int16) + OFFSET).astype(np.uint8) for m in matrices]
        group = GROUP[dtype]
        packed = pack(matrices, geometry, slack * group, group)
        packed = to_bf16(packed) if dtype == "bf16" else packed
        panels = self._hold(f"{_label(buffer)}.packed", dtype, packed)
        if scales:
            packed = pack(scales, geometry.of_scales, slack)
            self._scales[panels] = self._hold(f"{_label(buffer)}.scales", "f32", packed)
        return panels

    def _stored(self, buffer: SSAValue, depth: int) -> str:
        """The type in which weights are held."""
        if buffer_dtype(buffer) == "i8":
            return self._lowering.target.weights_dtype("int8")
        # A deeper sum of products of bytes could leave 32 bits, and would no longer be exact.
        if buffer_dtype(buffer) != "f32" or self.precision == "fp32" or depth > MOST_DEPTH:
            return buffer_dtype(buffer)
        return self._lowering.target.weights_dtype(self.precision)

    def _target(self, buffer: SSAValue) -> Target:
        """The machine as it computes with a buffer's elements."""
        return self._lowering.target.of(buffer_dtype(buffer))

    def _hold(self, label: str, dtype: str, array: np.ndarray[Any, Any]) -> SSAValue:
        """A new constant of the library."""
        place = self._lowering.declare(label, "param", dtype, [Dim.of(len(array))])
        self.keep(place.buffer, array)
        return place.buffer

    def rounds(self, dtype: str) -> bool:
        """Whether a call rounds to bf16 what it multiplies of a type."""
        return dtype == "f32" and self.precision == "bf16" and self._lowering.target.packs_bf16

    def _pack_later(
        self,
        buffer: SSAValue,
        sources: list[Access],
        units: int,
        geometry: PackedGeometry,
        home: OpBuilder | None,
    ) -> SSAValue:
        """Packed when the library is called: before all loops, or else before this kernel."""
        lowering, dtype, depth = self._lowering, buffer_dtype(buffer), geometry.depth
        # What a loop computes anew is no weight: it is not rounded.
        if home is not None and self.rounds(dtype):
            dtype = self._stored(buffer, depth)
        deep = packed_depth(depth, GROUP[dtype])
        size = packed_elements(len(sources), units, deep, self._target(buffer).slack)
        place = lowering.declare("packed", "scratch", dtype, [Dim.of(size)])
        op = moves.Pack([(buffer, s) for s in sources], place.buffer, units, geometry)
        (home or lowering.builder).insert(op)
        return place.buffer


def _label(buffer: SSAValue) -> str:
    assert isinstance(buffer.owner, Buffer)
    return buffer.owner.label.data


def _matrix(
    flat: np.ndarray[Any, Any], access: Access, units: int, depth: int
) -> np.ndarray[Any, Any]:
    """A view of the elements that an access over (unit, k) selects."""
    strides = [int(s) * flat.itemsize for s in access.strides]
    return np.lib.stride_tricks.as_strided(flat[int(access.offset) :], (units, depth), strides)
