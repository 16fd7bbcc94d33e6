"""What commands and users ask for, made by the steps of `rnncc.pipeline`."""
