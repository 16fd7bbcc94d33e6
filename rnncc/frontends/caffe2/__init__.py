"""Caffe2's recurrent nets: NetDef in, a `Program` of the `rnn` dialect out."""

from rnncc.frontends.caffe2.importer import OperatorShapes, import_net, infer_shapes
from rnncc.frontends.caffe2.table import OPERATORS, REFUSED

__all__ = ["OPERATORS", "REFUSED", "OperatorShapes", "import_net", "infer_shapes"]
