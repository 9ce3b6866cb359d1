"""The second reader of runs: tested before it is believed, asked once for a question, and never in the way of a run."""

from __future__ import annotations
