"""The version, which libraries name as their maker's."""

__version__ = "0.1.0"
