"""The attributes of one node, read by their types, and the errors that name the node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rnncc.errors import CompileError, Location
from rnncc.frontends.onnx.errors import Unsupported
from rnncc.frontends.onnx.signature import ATTRIBUTES
from rnncc.frontends.onnx.values import Array
from rnncc.ir.dims import Dim

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

    from rnncc.frontends.onnx.model import ModelContext

Pairs = Iterable[tuple[Dim, Dim]]


class Attributes:
    """A node's attributes; those that are absent have the schema's defaults.

    Attributes:
        op: the message.
        location: the file and the node.
    """

    def __init__(self, op: NodeProto, schema: Any, model: ModelContext, place: str) -> None:
        self.op, self._schema, self._model = op, schema, model
        self.location = Location(model.file, place)
        self._attributes = {a.name: a for a in op.attribute}

    # Errors

    def error(self, what: str, hint: str | None = None, differ: Pairs = ()) -> CompileError:
        """The file is wrong here; `differ`: sizes that would have to be equal."""
        return CompileError(self.location, what, hint, differ)

    def differ(self, one: Sequence[Dim], other: Sequence[Dim], what: str) -> CompileError:
        """Shapes are different that must be equal."""
        pairs = zip(one, other, strict=True) if len(one) == len(other) else ()
        return self.error(what, differ=pairs)

    def unsupported(self, what: str, hint: str | None = None) -> Unsupported:
        """The file is right, and rnncc does not do it."""
        return Unsupported(self.location, what, hint)

    # Reading

    def given(self, name: str) -> bool:
        """Whether an attribute is there."""
        return name in self._attributes

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer; the standard's default unless one is given."""
        return self._get(name, "i", default)

    def flag(self, name: str, default: int = 0) -> bool:
        """An attribute that is 0 or 1; of others, readers of the format take some for either."""
        value = self.integer(name, default)
        if value not in (0, 1):
            raise self.error(f"attribute {name} is {value}, expected 0 or 1")
        return bool(value)

    def real(self, name: str, default: float | None = None) -> float:
        """A number."""
        return self._get(name, "f", default)

    def text(self, name: str, default: str | None = None) -> str:
        """A word."""
        return _decoded(self._get(name, "s", default))

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """Integers; none where the standard has no default."""
        return list(self._get(name, "ints", default))

    def reals(self, name: str, default: Sequence[float] | None = None) -> list[float]:
        """Numbers."""
        return list(self._get(name, "floats", default))

    def texts(self, name: str, default: Sequence[str] | None = None) -> list[str]:
        """Words."""
        return [_decoded(text) for text in self._get(name, "strings", default)]

    def tensor(self, name: str) -> Array:
        """Numbers with a shape."""
        return self._model.tensors.array(self._get(name, "t"), self.location)

    def dense(self, name: str) -> Array:
        """Numbers with a shape, most of them zeros that the file does not hold."""
        sparse = self._get(name, "sparse_tensor")
        return self._model.tensors.dense(sparse, self.location)

    def graph(self, name: str) -> GraphProto:
        """A graph."""
        return self._get(name, "g")

    def _get(self, name: str, field: str, default: Any = None) -> Any:
        attribute = self._attributes.get(name)
        if attribute is None:
            return self._default(name, field) if default is None else default
        if attribute.type not in (ATTRIBUTES[field], 0):
            raise self.error(f"attribute {name!r} is of another type than it should be")
        return getattr(attribute, field)

    def _default(self, name: str, field: str) -> Any:
        schema = self._schema.attributes.get(name) if self._schema is not None else None
        if schema is None or not schema.default_value.name:
            if field in ("ints", "floats", "strings"):
                return []
            raise self.error(f"lacks the attribute {name!r}")
        return getattr(schema.default_value, field)

    def one_of(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """A word among some."""
        word = self.text(name, default)
        if word not in choices:
            what = f"attribute {name!r} = {word!r} is not one of {', '.join(choices)}"
            raise self.error(what)
        return word


def _decoded(text: str | bytes) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text
