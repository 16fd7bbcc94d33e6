"""Measurements: rnncc beside its peers, in one run."""
