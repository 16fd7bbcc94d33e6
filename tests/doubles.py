"""A net of float32 as the same net of float64."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from rnncc.ir.program import Program
from rnncc.ir.rnn import RNN

_ELEMENTS = re.compile(r'(?<=x)f32(?=[>,])|(?<=<)f32(?=>)|(?<=")f32(?=")')
"""In tensors' types, and as the type that a cast makes."""


def doubled(program: Program) -> Program:
    """The program with float64 in the place of float32; it draws no random numbers."""
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(RNN)
    text = _ELEMENTS.sub("f64", str(program.module))
    module = Parser(context, text).parse_module()
    module.verify()
    arrays = {
        name: array.astype(np.float64) if array.dtype.kind == "f" else array
        for name, array in program.arrays.items()
    }
    return replace(program, module=module, arrays=arrays)
