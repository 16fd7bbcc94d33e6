"""Branches on a tensor's value, of which both ways are read.

`reading.py` is the entry: where code asks whether a tensor is true, the function that asks is
written anew from its source (`rewriting.py`), with the ways of the branch as functions (`ways.py`,
from pieces of `syntax.py`; `assignments.py` tells which variables these hand on). The new code
calls `run.py`. What that leaves in the graph of an export becomes `torch.cond`
(`rnncc.frontends.torch.regions`).
"""
