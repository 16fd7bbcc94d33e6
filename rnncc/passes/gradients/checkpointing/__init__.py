"""Checkpoints along time: loops strip-mined, their carries kept."""
