"""From `rnn` to `kern`: which values get a buffer, what is fused into which kernel, the loops."""
