"""What every test shares: no cluster, setting or clock of the machine it happens to run on leaks in."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A test decides itself where it runs; these would send it to a cluster of somebody else's.
for name in ("RAY_ADDRESS", "SWEEP_HOME"):
    os.environ.pop(name, None)
# A Ray that a test starts asks for no token, leaves none behind in ~/.ray, and reports to nobody.
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# What the program prints is read back as plain text of a known width.
os.environ["NO_COLOR"] = "1"
os.environ["COLUMNS"] = "120"
os.environ["MPLBACKEND"] = "agg"

# Two busy cores say nothing about an example: how long it took is no failure.
settings.register_profile("crossover", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("crossover")
