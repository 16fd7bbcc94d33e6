"""The colours of pictures of nets and plans, light and dark: fill and line by what is shown."""

from __future__ import annotations

Pair = tuple[str, str]

LIGHT = {
    "box": ("#e6eefb", "#5578b4"),
    "group": ("#f3f5f8", "#5578b4"),
    "part": ("#ffffff", "#c3cad4"),
    "input": ("#e3f4e6", "#3f9159"),
    "output": ("#fdeedb", "#c07a25"),
    "state": ("#f0e8fb", "#8250b8"),
    "saved": ("#fbe6ef", "#b4467a"),
}
DARK = {
    "box": ("#22334f", "#7aa0e0"),
    "group": ("#1a2027", "#7aa0e0"),
    "part": ("#13171c", "#3d4854"),
    "input": ("#173721", "#63b77e"),
    "output": ("#3d2c14", "#dd9d4d"),
    "state": ("#2f2145", "#b58be0"),
    "saved": ("#43202f", "#e085ad"),
}
INK = {"light": ("#1b2430", "#56616e", "#ffffff"), "dark": ("#e4eaf2", "#a3afbd", "#13171c")}
"""Text, faint text, paper."""


def rules(colours: dict[str, Pair]) -> str:
    """CSS of shapes whose class says what they show."""
    rows = colours.items()
    return "\n".join(f".{name} {{ fill: {fill}; stroke: {edge}; }}" for name, (fill, edge) in rows)
