"""Rewrites of the `rnn` dialect that keep what a net computes."""
