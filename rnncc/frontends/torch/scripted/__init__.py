"""TorchScript as Python code of the same meaning, which everything that reads modules can read."""
