"""Turn text to redacted text: no secret is stored or sent, because none gets past here.

This package holds one module for each form of a secret, the policy, private parts, and personal data. It does not load
the scanner library (`worker`) or decide when a text is scanned (`reading`).

Open `scan.py` first.
"""
