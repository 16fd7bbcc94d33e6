"""Random programs as kernels, interpreted or compiled, against the interpreter of the IR."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.kern import interpreter as kern_interpreter
from rnncc.kern.program import KernelProgram
from rnncc.lowering.lower import lower
from rnncc.options import Options
from rnncc.planning.layout import plan
from tests import compiling, draw
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.golden import Arrays
from tests.strategies import make_inputs, programs

SIZES = [{"T": 0, "N": 3}, {"T": 1, "N": 1}, {"T": 4, "N": 3}, {"T": 9, "N": 45}]
"""The last takes several chunks of time."""
PROGRAMS = st.tuples(st.booleans(), st.sampled_from([3, 3, 3, 37])).flatmap(
    lambda choice: programs(known=choice[0], width=choice[1])
)
"""37: several panels of weights, the last one narrow."""

LARGEST = 1e30
"""Beyond, float32 may have infinities where float64 has numbers: a state that is multiplied by
itself grows that far in a few steps."""

Sizes = dict[str, int]
Execute = Callable[[Arrays, Sizes], Arrays]
Make = Callable[[Program], KernelProgram]


def examples(count: int) -> settings:
    # shrinking compiles hundreds of programs; a failure's own program says enough
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(
        max_examples=draw.examples(count),
        deadline=None,
        phases=phases,
        suppress_health_check=slow,
    )


def as_it_is(program: Program) -> KernelProgram:
    kernels = lower(program, resolve_target())
    plan(kernels)
    return kernels


def after_passes(program: Program) -> KernelProgram:
    return compiling.lower(program, Options(verify_each=True))


def compiled(kernels: KernelProgram) -> Execute:
    bare = Bare(kernels, resolve_target())

    def execute(inputs: Arrays, sizes: Sizes) -> Arrays:
        with guards(end=True) as memory:
            outputs = bare.run(inputs, sizes, memory)
        with guards(end=False) as memory:
            for name, array in outputs.items():
                alone = bare.run(inputs, sizes, memory, absent=outputs.keys() - {name})
                np.testing.assert_array_equal(alone[name], array, err_msg=name)
        return outputs

    return execute


def interpreted(kernels: KernelProgram) -> Execute:
    return lambda inputs, sizes: kern_interpreter.run(kernels, inputs, sizes)


def check(program: Program, make: Make, run_kernels: Callable[[KernelProgram], Execute]) -> None:
    """Compare on several sizes."""
    cases = [make_inputs(program, sizes, sizes["T"]) for sizes in SIZES]
    wanted = [run(program, inputs, np.float64, sizes) for sizes, inputs in cases]
    execute = run_kernels(make(program))
    for (sizes, inputs), want in zip(cases, wanted, strict=True):
        got = execute({name: single(array) for name, array in inputs.items()}, sizes)
        assert got.keys() == want.keys()
        assert all(np.isfinite(array).all() for array in want.values()), "values are to stay tame"
        if any(np.abs(array).max(initial=0.0) > LARGEST for array in want.values()):
            continue
        for name, array in want.items():
            scale = max(1.0, float(np.abs(array).max(initial=0.0)))
            message = f"{name} at {sizes}"
            np.testing.assert_allclose(got[name], array, 1e-4, 1e-4 * scale, err_msg=message)


def single(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == np.float64 else array
