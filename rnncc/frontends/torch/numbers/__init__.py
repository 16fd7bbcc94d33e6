"""Numbers that code takes out of tensors or makes of sizes, as values of a graph."""
