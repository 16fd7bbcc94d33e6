"""The order of axes in which tensors lie."""
