"""Hold the version of this package in its own module, whose import loads no interface."""

__version__ = "0.1.0"
