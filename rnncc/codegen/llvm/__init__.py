"""What code for any LLVM target shares: values, loops, functions on vectors, objects."""
