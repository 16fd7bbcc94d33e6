"""`rnncc compile`: its options, and the forms that it writes besides products."""
