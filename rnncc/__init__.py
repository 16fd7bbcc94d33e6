"""An ahead-of-time compiler for recurrent nets."""

__version__ = "0.1.0"
