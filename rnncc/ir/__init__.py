"""The `rnn` dialect, its types and its meaning in NumPy."""
