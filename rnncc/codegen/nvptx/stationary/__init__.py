"""Products whose weights stay in shared memory while a loop runs."""
