"""Libraries as plain portable C99: no vectors, no threads, nothing but libc and libm."""
