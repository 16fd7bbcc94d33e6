"""What the tests of passes share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from xdsl.context import Context
from xdsl.ir import Block

from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.ir.rewriting import NetPass
from rnncc.options import Options
from tests import draw
from tests.compiling import optimise

quick = settings(
    max_examples=draw.examples(15),
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking a program takes minutes
)


def applied(*passes: NetPass) -> Callable[[Program], None]:
    """The change that some passes make."""

    def change(program: Program) -> None:
        for a_pass in passes:
            a_pass.apply(Context(), program.module)
            program.module.verify()

    return change


def whole_sequence(program: Program) -> None:
    """All passes of inference in the order of the pipeline."""
    optimise(program, Options(verify_each=True))


def count(block: Block) -> Counter[str]:
    """How often each op occurs in a block, without those in nested ones."""
    return Counter(op.name.removeprefix("rnn.") for op in block.ops)


def loops_of(program: Program) -> list[Scan]:
    return [op for op in program.net.walk() if isinstance(op, Scan)]


def scans(program: Program) -> list[Scan]:
    return [op for op in program.net.body.block.ops if isinstance(op, Scan)]
