"""Hypothesis profiles: `default` for every day, `soak` (HYPOTHESIS_PROFILE=soak) for `make soak`.

Tests marked `soak` run only with the second, those marked `real_model` only with `-m real_model`.
"""

import os

from hypothesis import HealthCheck, settings

# No deadline: a machine that is busy is no bug. Slow generation is one, so only that check is relaxed for soaking.
settings.register_profile("default", max_examples=50, deadline=None)
settings.register_profile(
    "soak", max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
settings.load_profile(PROFILE)


def pytest_collection_modifyitems(config, items):
    wanted = {"soak": PROFILE == "soak", "real_model": "real_model" in config.option.markexpr}
    left_out = [item for item in items if any(item.get_closest_marker(name) and not wanted[name] for name in wanted)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter):
    """Say what the sweeps covered, also of tests that passed."""
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, [])]
    for report in reports:
        for name, value in getattr(report, "user_properties", ()):
            if name == "covered":
                terminalreporter.write_line(f"covered  {value}")
