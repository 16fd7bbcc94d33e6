"""`kern.gemm`: register tiles over packed weights, for each type of weights."""
