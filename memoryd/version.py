"""Hold the version of this package in its own module: importing it loads no interface."""

__version__ = "0.1.0"
