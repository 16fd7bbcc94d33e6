"""PyTorch graphs (aten operators) as `rnn` programs."""
