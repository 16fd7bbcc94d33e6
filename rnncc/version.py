"""The version, which libraries name as their maker's."""

__version__ = "0.2.0"
