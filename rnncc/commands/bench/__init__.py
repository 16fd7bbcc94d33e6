"""`rnncc bench`: its options, what it does with them, and how it prints."""
