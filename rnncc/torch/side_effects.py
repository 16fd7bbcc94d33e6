# pyright: basic, reportMissingImports=false
"""What TorchDynamo would leave in objects that were there before a call.

What a graph has computed shows among its results. A tensor that came in does not: Dynamo would put
what stands for it in its place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.variables.base import (
    AttributeMutationExisting,
    ValueMutationExisting,
    VariableTracker,
)
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import TensorVariable

from rnncc.errors import CompileError
from rnncc.frontends.torch.watching.dynamo import is_stand_in

_EXISTING = (AttributeMutationExisting, ValueMutationExisting)


def leaves_given_tensors(also_held: bool) -> bool:
    """Whether the code that is being compiled now puts tensors somewhere that it was given.

    Args:
        also_held: whether those that the cell holds count, too.
    """
    assigned = _assigned(_output_graph())
    return any(x.source is not None and (also_held or is_stand_in(x)) for x in assigned)


def counts() -> bool:
    """Whether the code that is being compiled now leaves numbers in objects that were there.

    Raises:
        CompileError: one of them is of a type that Python has not, which a loop does not carry.
    """
    variables = list[Any]()
    for part in _changed_parts(_output_graph()):
        VariableTracker.visit(variables.append, part)
    constants = [x.value for x in variables if isinstance(x, ConstantVariable)]
    for number in constants:
        if isinstance(number, np.generic) and not isinstance(number, float):
            what = (
                f"a step leaves a number of NumPy's in an object, of type {type(number).__name__}"
            )
            raise CompileError("", what, "int(...) or float(...)")
    return any(isinstance(x, int | float) for x in constants)


def _output_graph() -> Any:
    """Dynamo's, which calls the back end."""
    frame: Any = sys._getframe(1)
    while not isinstance(frame.f_locals.get("self"), OutputGraph):
        frame = frame.f_back
    return frame.f_locals["self"]


def _assigned(output: Any) -> Iterator[Any]:
    """The tensors in what is changed."""
    effects, variables = output.side_effects, list[Any]()
    seen = set[int]()

    def visit(variable: Any) -> None:
        if isinstance(variable, TensorVariable):
            variables.append(variable)
        elif variable in effects.store_attr_mutations and id(variable) not in seen:
            seen.add(id(variable))
            for value in effects.store_attr_mutations[variable].values():
                VariableTracker.visit(visit, value)

    for part in _changed_parts(output):
        VariableTracker.visit(visit, part)
    return iter(variables)


def _changed_parts(output: Any) -> Iterator[Any]:
    """What is new in what was there before."""
    effects = output.side_effects
    for variable in list(effects.id_to_variable.values()):
        if isinstance(variable.mutation_type, _EXISTING) and effects.is_modified(variable):
            parts = effects.store_attr_mutations.get(variable)
            yield from [variable] if parts is None else parts.values()
