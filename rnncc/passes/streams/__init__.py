"""A net's steps as time goes on: its state, and what may be done step by step."""
