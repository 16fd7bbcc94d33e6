"""`rnncc inspect`: what it tells of a file, one module for each kind of net."""
