"""What the steps of `rnncc.pipeline` do that are more than a pass over one net."""
