"""Writes docs/ir.md from the ops' own docstrings: python -m tools.write_ir_reference"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation

from rnncc.ir.rnn import FAMILIES
from rnncc.kern import dialect as kern
from tools.wrapping import wrap

PATH = Path(__file__).parents[1] / "docs" / "ir.md"
HEAD = """# The IR

Written by `tools/write_ir_reference.py` from the docstrings of the ops; do not edit.

Both dialects are xDSL dialects: stock `xdsl-opt` loads them (`xdsl.universe` entry point), and
`rnncc compile NET --emit rnn` or `--emit kern` prints a net in them. Values of `rnn` are tensors
with dense elements (f32, f64, i32, i64, i1); the encoding of a tensor's type names its symbolic
sizes: `tensor<?x?x40xf32, ["T", "N", "40"]>`. Sizes are polynomials over symbols (`T*N + 1`);
a factor may be a quotient, rounded up (`T/2`, `(T + 1)/3`), or a formula where that is positive
(`max(T - 5, 0)`).

In `rnncc/ir`, `dims.py` is `Dim`, in one canonical form, a sum of the products of `monomials.py`;
`size_proofs.py` proves that a formula is never negative, `types.py` keeps symbolic shapes in the
encoding of xDSL's own tensor type. `ops/` has a file a family: each op is one class with its type
rule (`infer`), its meaning in NumPy (`evaluate`), its gradient (`vjp`), and what passes ask of it:
axes, batches, costs ([adding-an-op.md](adding-an-op.md)). `builder.py` appends ops with NumPy's
broadcasting and a source location each, `gates.py` builds conditionals and loops from scans.
`interpreter.py` runs a program by `evaluate`: the oracle of the tests. `program.py` holds a net and
the arrays of its parameters, which are never attributes.
"""


def reference() -> str:
    """The whole page."""
    parts = [HEAD, "\n## The rnn dialect: what is computed\n"]
    for title, module in FAMILIES.items():
        parts.append(f"\n### {title}\n\n{_about(module)}\n\n")
        parts += [_entry(op) for op in module.OPS]
    parts.append(f"\n## The kern dialect: how it is computed\n\n{_about(kern)}\n\n")
    parts += [_entry(op) for op in kern.OPS]
    return wrap("".join(parts))


def _about(module: ModuleType) -> str:
    return inspect.cleandoc(module.__doc__ or "")


def _entry(op: type[Operation]) -> str:
    assert issubclass(op, IRDLOperation)
    fields = op.get_irdl_definition()
    names = [name for name, _ in fields.operands]
    properties = [name for name in fields.properties if not name.endswith("SegmentSizes")]
    line = f"- **`{op.name}`** `({', '.join(names)})`"
    line += f" `{{{', '.join(properties)}}}`" if properties else ""
    text = inspect.cleandoc(op.__doc__ or "").replace("\n\n", "\n").replace("\n", "\n  ")
    return f"{line}: {text}\n"


if __name__ == "__main__":
    PATH.write_text(reference())
