"""Caffe2's NetDef: files, SSA versions, the arrays of init nets, and surgery on nets.

Every function takes messages and gives new messages or plain values; nothing is changed in place.
"""

from rnncc.netdef.arguments import Arguments
from rnncc.netdef.copies import fuse_copies
from rnncc.netdef.devices import infer_devices, propagate
from rnncc.netdef.export import export
from rnncc.netdef.files import check_text, load, parse_text, save
from rnncc.netdef.fills import DeclaredFill, declared_fills, parameters
from rnncc.netdef.liveness import extract, remove_dead_ops
from rnncc.netdef.netdef_pb2 import Argument, NetDef, OperatorDef, TensorProto
from rnncc.netdef.prune import Removed, prune
from rnncc.netdef.rename import rename_input, rename_output
from rnncc.netdef.reshapes import remove_reshape_before_fc, reshape_subgraphs
from rnncc.netdef.rewriting import ssa_rewrite
from rnncc.netdef.versions import (
    consumers,
    external_blobs,
    producers,
    ssa,
    subgraph_io,
    undefined_blobs,
)

__all__ = [
    "Argument",
    "Arguments",
    "DeclaredFill",
    "NetDef",
    "OperatorDef",
    "Removed",
    "TensorProto",
    "check_text",
    "consumers",
    "declared_fills",
    "export",
    "external_blobs",
    "extract",
    "fuse_copies",
    "infer_devices",
    "load",
    "parameters",
    "parse_text",
    "producers",
    "propagate",
    "prune",
    "remove_dead_ops",
    "remove_reshape_before_fc",
    "rename_input",
    "rename_output",
    "reshape_subgraphs",
    "save",
    "ssa",
    "ssa_rewrite",
    "subgraph_io",
    "undefined_blobs",
]
