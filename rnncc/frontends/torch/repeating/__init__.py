"""Loops that TorchDynamo would read step by step: one step stands for those that follow it.

A step is read with its number, such as `t` of `for t in range(n)`, as a symbol. What code decided
by it are guards, which say for which other steps the code does the same. If moreover all that code
can reach is after the step as it was before, but for tensors of the same types and for lists that
only grew, the steps that follow are the same with the tensors of the step before: their nodes are
copied. The graph is that of reading every step.
"""
