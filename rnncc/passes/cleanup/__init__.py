"""A net in its smallest equal form: what is dead, equal, constant or simpler otherwise."""
