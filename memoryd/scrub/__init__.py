"""Redact texts: remove secrets, private parts and personal data before a text is stored or sent.

The policy says what is removed, and each form of a secret has a module. This package does not load the scanner library
(`worker`) or decide when a text is scanned (`reading`).

Open `scan.py` first.
"""
