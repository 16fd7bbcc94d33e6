"""`rnncc netdef`: its commands, their files, what they change and print."""
