"""The `kern` dialect: nets as kernels over buffers, their meaning, and what a library needs."""
