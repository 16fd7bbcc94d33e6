"""Formulas over a builder of `rnn` ops, each once: what all front ends call."""
