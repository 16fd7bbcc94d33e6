"""Shapes of a model's inputs: what the file says, with the sizes that the user gives.

`dim_param` names are symbols; a size that the file leaves open without a name gets one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from rnncc.constants import Constant
from rnncc.errors import CompileError, Location
from rnncc.frontends.bindings import constant_of
from rnncc.frontends.onnx.errors import Unsupported
from rnncc.frontends.onnx.lists import Names, flat_names
from rnncc.frontends.onnx.node import STORED, TEXT
from rnncc.frontends.onnx.reading import onnx_package
from rnncc.frontends.onnx.values import MAX_RANK, Array, Dims, name_of
from rnncc.frontends.shapes import Shape, Sizes, parse_shape
from rnncc.ir.dims import Dim
from rnncc.ir.types import shape_text
from rnncc.names import c_name
from rnncc.records import record

_TAKEN = ("inputs", "outputs", "workspace", "state", "part", "parameters", "tape", "grads")
"""Names of arguments in the C interface."""


class Inputs:
    """The shapes and types of inputs.

    Args:
        infos: the graph's inputs that are to be inputs of the model, or may be.
        shapes: what the user gives: a size named differently there is that size everywhere.
        learnt: symbols that stand for other sizes, by all of that.

    The file's own symbols, which users' names do not mean, have names of their own until the end.
    """

    def __init__(
        self, infos: Sequence[Any], shapes: Sizes, file: str, learnt: Mapping[str, Dim]
    ) -> None:
        self.file, self._learnt = file, learnt
        self._open = dict[str, list[Dim] | None]()
        self._types = dict[str, str]()
        self._symbols = dict[tuple[str, bool], str]()
        self._named = dict[str, Dim]()
        for info in infos:
            self._open[info.name], self._types[info.name] = self._declared(info)
        self._replaced = dict[str, Dim | int]()
        for name, shape in shapes.items():
            self._give(name, shape)

    def dtype(self, name: str) -> str:
        """An input's element type."""
        return self._types[name]

    def dims(self, name: str) -> Dims:
        """An input's shape.

        Raises:
            CompileError: neither the file nor the user says how many axes it has.
        """
        dims = self._open[name]
        if dims is None:
            what = f'input "{name}" has no shape'
            raise CompileError(self.file, what, f"--shape {name}=... gives one")
        renamed = (d.substitute(self._replaced).substitute(self._named) for d in dims)
        return tuple(d.substitute(self._learnt) for d in renamed)

    def _declared(self, info: Any) -> tuple[list[Dim] | None, str]:
        place = Location(self.file, f'input "{info.name}"')
        kind = info.type.WhichOneof("value")
        if kind in ("sequence_type", "optional_type"):
            shown = "a list" if kind == "sequence_type" else "an optional value"
            what = f"is {shown} of tensors, and the file does not say what it holds"
            raise Unsupported(place, what, "rnncc.onnx_backend takes lists")
        if kind != "tensor_type":
            shown = (kind or "no type").removesuffix("_type")
            raise Unsupported(
                place, f"is no tensor but a value of kind {shown}, which is not supported"
            )
        type_ = info.type.tensor_type
        dtype = dtype_name(type_.elem_type)
        if dtype not in STORED:
            supported = ", ".join(TEXT[d] for d in STORED)
            raise Unsupported(place, f"holds {TEXT.get(dtype, dtype)}; supported: {supported}")
        if not type_.HasField("shape"):
            return None, dtype
        if len(type_.shape.dim) > MAX_RANK:
            raise CompileError(place, f"has {len(type_.shape.dim)} axes, at most {MAX_RANK}")
        return [self._dim(d, info.name, i) for i, d in enumerate(type_.shape.dim)], dtype

    def _dim(self, dim: Any, name: str, axis: int) -> Dim:
        """A known size, or a symbol: exporters write -1 and "?" too for one that is open."""
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            return Dim.of(dim.dim_value)
        named = any(character.isalnum() for character in dim.dim_param)
        return self._symbol(dim.dim_param) if named else self._unnamed(name, axis)

    def _text(self, dims: Sequence[Dim]) -> str:
        return shape_text([d.substitute(self._named) for d in dims])

    def _unnamed(self, name: str, axis: int) -> Dim:
        """The symbol for a size without a name, of this input alone whatever sizes are called."""
        return self._symbol(f"{name}_{axis}", named=False)

    def _symbol(self, text: str, named: bool = True) -> Dim:
        """The symbol for a size's name, which may hold any characters."""
        if (text, named) not in self._symbols:
            stem = c_name(text)[:64]
            stem = f"d{stem}" if stem.startswith("_") else stem
            stem = f"{stem}_" if stem in _TAKEN else stem
            chosen, number = stem, 1
            while _own(chosen) in self._named:
                number += 1
                chosen = f"{stem}_{number}"
            self._symbols[text, named], self._named[_own(chosen)] = chosen, Dim.of(chosen)
        return Dim.of(_own(self._symbols[text, named]))

    def bind(self, name: str, value: Constant) -> Array:
        """A constant in the place of an input, whose sizes hold wherever they stand.

        Raises:
            CompileError: there is no such input, or the constant does not fit it.
        """
        place = Location(self.file, f"--bind {name}")
        self._check_known(name, place)
        dims = None if self._open[name] is None else self.dims(name)
        array = constant_of(value, self._types[name], dims, place)
        self._unify(name, [Dim.of(size) for size in array.shape], place)
        return array

    def _give(self, name: str, shape: Shape) -> None:
        place = Location(self.file, f"--shape {name}")
        self._check_known(name, place)
        self._unify(name, parse_shape(shape, place), place)

    def _check_known(self, name: str, place: Location) -> None:
        if name not in self._open:
            raise CompileError(
                place, "is no input of the model", f"inputs: {', '.join(self._open)}"
            )

    def _unify(self, name: str, requested: Sequence[Dim | None], place: Location) -> None:
        """The sizes of an input are these."""
        held = self._open[name]
        if held is None:
            names = [self._unnamed(name, axis) for axis in range(len(requested))]
            held = self._open[name] = names
        if len(held) != len(requested):
            what = f"gives {len(requested)} sizes, the file says {self._text(held)}"
            raise CompileError(place, what)
        for old, new in zip(held, requested, strict=True):
            if new is None:
                continue
            now = old.substitute(self._replaced)
            if now == new:
                continue
            if now != old or now.is_static:
                what = f"gives {new} where the file says {self._text(held)}"
                what = what if now == old else f"{what}, and {now} is given already"
                raise CompileError(place, what)
            self._replaced[str(old)] = new


def _own(symbol: str) -> str:
    """A symbol of the file, as no user may write one."""
    return f"?{symbol}"


@record
class Given:
    """What is known of inputs before a model is read.

    Attributes:
        values: inputs that are to be constants, by the names of their tensors.
        held: what lists and optional values among the inputs hold.
        shapes: of the tensors that these hold, and of others whose sizes are to be numbers.
    """

    values: Mapping[str, Array] = field(default_factory=dict[str, Array])
    held: Mapping[str, Names] = field(default_factory=dict[str, Names])
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def tensors_of(self, info: Any) -> list[Any]:
        """The declarations of the tensors that an input is or holds."""
        if info.name not in {*self.held, *self.shapes}:
            return [info]
        type_, helper = info.type, onnx_package().helper
        for kind in ("optional_type", "sequence_type"):
            type_ = getattr(type_, kind).elem_type if type_.HasField(kind) else type_
        names = flat_names(self.held.get(info.name, info.name))
        if not type_.HasField("tensor_type"):
            return [helper.make_value_info(name, type_) for name in names]
        dtype = type_.tensor_type.elem_type
        return [helper.make_tensor_value_info(n, dtype, self.shapes[n]) for n in names]


def dtype_name(kind: int) -> str:
    """Our name of one of ONNX's element types, else NumPy's."""
    onnx = onnx_package()
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    except (KeyError, ValueError):
        return "an unknown type"
    if kind == onnx.TensorProto.STRING:
        return "text"
    return name_of(dtype)
