"""Caffe2's NetDef files: reading, writing, SSA versions, and the arrays of init nets."""

from rnncc.netdef.arguments import Arguments
from rnncc.netdef.files import MAX_BYTES, check_text, load, parse_text, save
from rnncc.netdef.fills import Fill, declared_fills, parameters
from rnncc.netdef.netdef_pb2 import Argument, NetDef, OperatorDef, TensorProto
from rnncc.netdef.versions import ssa

__all__ = [
    "MAX_BYTES",
    "Argument",
    "Arguments",
    "Fill",
    "NetDef",
    "OperatorDef",
    "TensorProto",
    "check_text",
    "declared_fills",
    "load",
    "parameters",
    "parse_text",
    "save",
    "ssa",
]
