"""Caffe2's recurrent nets: NetDef in, a `Program` of the `rnn` dialect out."""

from rnncc.frontends.caffe2.importer import import_net
from rnncc.frontends.caffe2.table import OPERATORS, REFUSED

__all__ = ["OPERATORS", "REFUSED", "import_net"]
