"""From `kern` to machine code, by way of LLVM."""
