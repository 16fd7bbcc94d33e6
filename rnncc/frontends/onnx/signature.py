"""What the standard's schema says of an operator's attributes, inputs and outputs, and the check of
a node against it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rnncc.frontends.onnx.reading import onnx_package
from rnncc.frontends.onnx.values import Value
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.frontends.onnx.node import Node

TEXT = {
    **{"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "i1": "bool"},
    **{"i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "u32": "uint32"},
    **{"u64": "uint64", "f16": "float16", "bf16": "bfloat16", "text": "text"},
}
STANDARD = {
    **{**TEXT, "f32": "float", "f64": "double", "text": "string"},
    **{"float4_e2m1fn": "float4e2m1", "float8_e8m0fnu": "float8e8m0"},
}
"""Element types whose names in schemas differ by more than an underscore."""
MANY = 1 << 30
"""More inputs than a node has."""
ATTRIBUTES = {
    **{"f": 1, "i": 2, "s": 3, "t": 4, "g": 5, "floats": 6, "ints": 7, "strings": 8},
    "sparse_tensor": 11,
}
"""Field of an attribute -> the type of attributes whose value it holds."""


@record
class Formal:
    """An input in a schema.

    Attributes:
        option: Single, Optional or Variadic.
        types: those that it may have, such as `tensor(float)`; none where its reader tells.
        group: inputs of one group are of one type; empty for one that is alone.
    """

    name: str
    option: str
    types: frozenset[str]
    group: str

    @property
    def element_types(self) -> list[str]:
        """The element types of tensors among the types."""
        return sorted(t[len("tensor(") : -1] for t in self.types if t.startswith("tensor("))


@record
class Signature:
    """An operator of one version.

    Attributes:
        inputs: the formal ones, of which the last may stand for several.
        counts: the least and most inputs.
        outputs: the least and most outputs.
        results: the formal ones.
        attributes: name -> the number of its type, and whether it must be there.
    """

    inputs: tuple[Formal, ...]
    counts: tuple[int, int]
    outputs: tuple[int, int]
    attributes: Mapping[str, tuple[int, bool]]
    results: tuple[Formal, ...] = ()

    def result_type(self, index: int, groups: Mapping[str, Value]) -> str | None:
        """The element type of an output, where the schema tells it by the types of the inputs."""
        formal = self.results[min(index, len(self.results) - 1)]
        if formal.group in groups:
            return groups[formal.group].dtype
        only = formal.element_types if len(formal.types) == 1 else []
        return next((ours for ours, name in STANDARD.items() if only == [name]), None)

    def formal(self, index: int) -> Formal:
        """What the schema says of an input."""
        return self.inputs[min(index, len(self.inputs) - 1)]


@lru_cache(maxsize=4096)
def schema_of(kind: str, opset: int, domain: str) -> Any:
    """What the standard says of an operator; None where it has none."""
    onnx = onnx_package()
    try:
        return onnx.defs.get_schema(kind, opset, domain)
    except onnx.defs.SchemaError:
        return None


@lru_cache(maxsize=4096)
def signature_of(kind: str, opset: int, domain: str) -> Signature | None:
    """The same in our own words, read once."""
    schema = schema_of(kind, opset, domain)
    if schema is None:
        return None
    constraints = {c.type_param_str for c in schema.type_constraints}
    inputs, results = (
        tuple(
            Formal(
                info.name,
                info.option.name,
                frozenset(info.types),
                info.type_str if info.type_str in constraints and info.is_homogeneous else "",
            )
            for info in formal
        )
        for formal in (schema.inputs, schema.outputs)
    )
    attributes = {
        name: (int(info.type.value), bool(info.required))
        for name, info in schema.attributes.items()
    }
    counts, outputs = (
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
    )
    return Signature(inputs, counts, outputs, attributes, results)


def stated_signature(inputs: str, attributes: str = "", outputs: int = 1) -> Signature:
    """That of an operator of which the standard has no schema.

    Args:
        inputs: their names; `?` is behind one that may be missing, `*` behind a last one that
            stands for several.
        attributes: names and their fields in `ATTRIBUTES`, such as "axis:i scale:f"; `!` is behind
            one that must be there.
        outputs: how many at most.
    """
    options = {"?": "Optional", "*": "Variadic"}
    formal = tuple(
        Formal(name.rstrip("?*"), options.get(name[-1], "Single"), frozenset(), "")
        for name in inputs.split()
    )
    least = max(i + 1 for i, f in enumerate(formal) if f.option != "Optional")
    most = MANY if formal[-1].option == "Variadic" else len(formal)
    kinds = dict(each.split(":") for each in attributes.split())
    return Signature(
        formal,
        (least, most),
        (1, outputs),
        {name: (ATTRIBUTES[kind.rstrip("!")], kind[-1] == "!") for name, kind in kinds.items()},
    )


def size_type(n: Node, signature: Signature | None, index: int) -> str:
    """The type of sizes that are a node's output: of the inputs of its group, else int64."""
    if signature is None or not signature.results:
        return "i64"
    group = signature.results[min(index, len(signature.results) - 1)].group
    alike = (v for i, v in enumerate(n.inputs) if v and signature.formal(i).group == group)
    return next((v.dtype for v in alike), "i64") if group else "i64"


def check_node(n: Node, signature: Signature) -> dict[str, Value]:
    """Check a node's attributes, and the number and types of its inputs and outputs.

    Returns:
        the first input of each group.
    Raises:
        CompileError: one of them is not as the standard says.
    """
    _check_counts(n, signature)
    _check_attributes(n, signature)
    groups = dict[str, Value]()
    for index, value in enumerate(n.inputs):
        if value is not None:
            _check_type(n, index, value, signature.formal(index), groups)
    return groups


def _check_counts(n: Node, signature: Signature) -> None:
    count, outputs = len(n.op.input), len(n.op.output)
    (least, most), (fewest, largest) = signature.counts, signature.outputs
    if not least <= count <= most:
        raise n.error(f"has {count} inputs, expected {_range(least, most)}")
    if outputs > largest:
        raise n.error(f"has {outputs} outputs, at most {largest}")
    if outputs < fewest:
        raise n.error(f"has {outputs} outputs, at least {fewest}")
    for index, formal in enumerate(signature.inputs[:least]):
        if formal.option == "Single" and not n.has(index):
            raise n.error(f"lacks its input {formal.name!r}")
    variadic = bool(signature.inputs) and signature.inputs[-1].option == "Variadic"
    for index in range(len(signature.inputs) - 1, count) if variadic else ():
        if not n.has(index):
            raise n.error(f"lacks its input {index}")


def _range(least: int, most: int) -> str:
    """How many inputs there may be."""
    if least == most:
        return str(least)
    return f"at least {least}" if most >= MANY else f"{least} to {most}"


def _check_attributes(n: Node, signature: Signature) -> None:
    for name, (_, required) in signature.attributes.items():
        if required and not n.given(name):
            raise n.error(f"lacks the attribute {name!r}")
    seen = set[str]()
    for attribute in n.op.attribute:
        name = attribute.name
        if name in seen:
            raise n.error(f"has the attribute {name!r} twice")
        seen.add(name)
        if name not in signature.attributes:
            known = ", ".join(signature.attributes) or "it has none"
            raise n.error(f"has the unknown attribute {name[:40]!r}", f"attributes: {known}")
        if attribute.ref_attr_name:
            raise n.error(f"takes the attribute {name!r} from a function, and stands in none")
        if attribute.type not in (signature.attributes[name][0], 0):
            raise n.error(f"attribute {name!r} is of another type than it should be")


def _check_type(
    n: Node, index: int, value: Value, formal: Formal, groups: dict[str, Value]
) -> None:
    """Check one input; `groups` holds the first input of each group."""
    shown = f'input "{n.op.input[index]}"'
    value = value.whole()
    if not formal.types:
        if value.is_tensor and value.dtype == "text":
            raise n.unsupported(f"{shown} is text")
        return
    if not value.is_tensor:
        if not any(t.startswith(("seq(", "optional(")) for t in formal.types):
            raise n.error(f"{shown} is {value}, not a tensor")
        return
    if not any(t.startswith(("tensor(", "optional(tensor(")) for t in formal.types):
        raise n.error(f"{shown} is {value}, not a list")
    name = STANDARD.get(value.dtype, value.dtype.replace("_", ""))
    dtype = TEXT.get(value.dtype, value.dtype)
    if formal.types.isdisjoint({f"tensor({name})", f"optional(tensor({name}))"}):
        allowed = ", ".join(formal.element_types)
        raise n.error(f"{shown} is {dtype}", f"allowed: {allowed}" if allowed else None)
    first = groups.setdefault(formal.group, value) if formal.group else value
    if first.is_tensor and first.dtype != value.dtype:
        raise n.error(
            f"has inputs of types {TEXT.get(first.dtype, first.dtype)} and {dtype}, which must "
            "be equal"
        )
