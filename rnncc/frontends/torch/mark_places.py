"""Where `branches/marks.py` puts marks: the second operand of `rnncc::mark`, in a graph's order.

Plain integers: TorchDynamo reads code that names them, and graphs are printed with them.
"""

WAY_IF_TRUE, WAY_IF_FALSE, BRANCH_END = 0, 1, 2
"""Before each way of a branch, and behind both."""
LOOP_TEST, LOOP_BODY, LOOP_END = 3, 4, 5
"""Before the test of a loop, before its body, and behind both."""
TRIAL, TRIAL_END = 6, 7
"""Around what is run to see what it gives, and forgotten."""
