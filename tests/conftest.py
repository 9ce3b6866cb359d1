"""Hypothesis profiles: `default` for every day, `soak` (HYPOTHESIS_PROFILE=soak) for `make soak`."""

import os

from hypothesis import HealthCheck, settings

# No deadline: a machine that is busy is no bug. Slow generation is one, so only that check is relaxed for soaking.
settings.register_profile("default", max_examples=50, deadline=None)
settings.register_profile(
    "soak", max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
