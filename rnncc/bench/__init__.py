"""Measurements: nets and suites beside peers, this machine's ceilings, what bounds a net."""
