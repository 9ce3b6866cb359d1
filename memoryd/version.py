"""The version of this package, in a module of its own: to import it loads no interface."""

__version__ = "0.1.0"
