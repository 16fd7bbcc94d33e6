"""From `rnn` to `kern`.

In: a program after its passes. Out: a kernel program whose buffers have no offsets yet.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from rnncc.codegen.target import Target
from rnncc.ir.ports import Role
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of
from rnncc.kern.program import KernelProgram, Port
from rnncc.lowering.absent_inputs import set_default_zeros
from rnncc.lowering.absent_outputs import set_fallbacks
from rnncc.lowering.walk import Lowering


def lower(
    program: Program, target: Target, precision: str = "fp32", max_steps: int | None = None
) -> KernelProgram:
    """Kernels over buffers for a whole net.

    Args:
        precision: of the weights that it knows.
        max_steps: no call takes more steps than that.
    """
    net = program.net
    added = net.input_roles, net.output_roles
    unknown = {n: op for n, op in program.params.items() if n not in program.arrays}
    result = KernelProgram(
        ModuleOp([]),
        program.name,
        program.source,
        program.symbols,
        [_port(n, v, n in program.arrays, added[0].get(n)) for n, v in net.inputs.items()]
        + [_port(n, p.y) for n, p in unknown.items()],
        [_port(n, v, role=added[1].get(n)) for n, v in net.outputs.items()],
        [_port(n, op.y) for n, op in program.params.items() if n not in unknown],
    )
    lowering = Lowering(program, result, target)
    lowering.weights.precision, lowering.max_steps = precision, max_steps
    func = lowering.run(net)
    result.bounds = lowering.bounds
    result.module.body.block.add_op(func)
    set_fallbacks(result)
    set_default_zeros(result, program.zeros)
    _drop_unused(result)
    return result


def _drop_unused(result: KernelProgram) -> None:
    """Forget parameters that only their packed form is read of."""
    defaults = {b.default.data for b in result.buffers if b.default is not None}
    for buffer in result.buffers:
        unused = buffer.role.data == "param" and not buffer.y.first_use
        if unused and buffer.label.data not in defaults:
            result.arrays.pop(buffer.label.data)
            buffer.detach()
            buffer.erase()


def _port(name: str, value: SSAValue, optional: bool = False, role: Role | None = None) -> Port:
    return Port(name, dims_of(value), dtype_of(value), optional, role)
