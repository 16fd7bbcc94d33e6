"""Branches and loops on a tensor's value: both ways are read, and the body once.

`reading.py` is the entry: where code asks whether a tensor is true, the function that asks is
written anew from its source (`rewriting.py`), with the ways of the branch, or the test and the body
of the loop, as functions (`ways.py`, from pieces of `syntax.py`; `assignments.py` tells which
variables these hand on). `jumps.py` takes `break`, `continue` and `return` out of loops,
`counted.py` finds numbers that change, `filled.py` what makes tensors of them. The new code calls
`run.py` and `loops.py`. What that leaves in a graph becomes `torch.cond` and `torch.while_loop`
(`rnncc.frontends.torch.branches.regions`).
"""
