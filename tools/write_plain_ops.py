"""Writes rnncc/ir/plain_ops.pyi from the classes of the ops: python -m tools.write_plain_ops"""

from __future__ import annotations

import inspect
from pathlib import Path

from rnncc.ir.ops.base import RnnOp
from rnncc.ir.plain_ops import PLAIN, flags_of

PATH = Path(__file__).parents[1] / "rnncc" / "ir" / "plain_ops.pyi"
HEAD = '''"""Written by `tools/write_plain_ops.py` from the classes of the ops; do not edit."""

from abc import ABC, abstractmethod

from xdsl.ir import Attribute, SSAValue

from rnncc.ir.ops.base import RnnOp

PLAIN: list[type[RnnOp]]

def flags_of(op: type[RnnOp]) -> dict[str, bool]: ...

class PlainOps(ABC):
    @abstractmethod
    def broadcast_together(self, *values: SSAValue) -> list[SSAValue]: ...
    @abstractmethod
    def append(
        self, op: type[RnnOp], *operands: SSAValue, **properties: Attribute
    ) -> SSAValue: ...
'''


def stub() -> str:
    """The whole file."""
    return HEAD + "".join(_entry(op) for op in PLAIN)


def _entry(op: type[RnnOp]) -> str:
    definition = op.get_irdl_definition()
    kind = ["kind: str"] if "kind" in definition.properties else []
    operands = [f"{name}: SSAValue" for name, _ in definition.operands]
    flags = [f"{n}: bool = ..." if flag else f"{n}: int" for n, flag in flags_of(op).items()]
    signature = ", ".join(["self", *kind, *operands, *flags])
    name, first, *_ = op.name.removeprefix("rnn."), *inspect.cleandoc(op.__doc__ or "").split("\n")
    return f'    def {name}({signature}) -> SSAValue:\n        """{first}"""\n'


if __name__ == "__main__":
    PATH.write_text(stub())
