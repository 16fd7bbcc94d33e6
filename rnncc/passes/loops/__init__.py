"""Which work a loop does, and which is done before or behind it, for all steps at once."""
