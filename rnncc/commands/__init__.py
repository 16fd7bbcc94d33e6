"""What stands behind `rnncc NAME`: a module or package of that name, over what commands share.

`console` wraps all of them; `options`, `help`, `tables` and `libraries` are shared.
"""
