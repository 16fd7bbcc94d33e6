"""Products by tensor cores: of many rows, and of loops whose weights stay in registers."""
