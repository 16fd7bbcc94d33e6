"""The parts of `python -m benchmarks.gpu`: rnncc and its peers on an NVIDIA GPU."""
