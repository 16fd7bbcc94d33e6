"""The ops of the `rnn` dialect, one file a family."""
