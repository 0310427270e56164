"""Energy that the CPU's packages have used, as the processor itself counts it (RAPL, by way of Linux).

Few virtual machines have the counters, and most kernels show them to root alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")

#: By package: microjoules counted so far, and the number from which counting begins at 0 again.
Counted = Mapping[str, tuple[int, int]]


def read() -> Counted:
    """Read the counter of every package; empty where there is none or it may not be read."""
    found = {}
    for folder in sorted(POWERCAP.glob("*:*")):
        try:
            if (folder / "name").read_text().startswith("package"):
                counted, most = (folder / "energy_uj").read_text(), (folder / "max_energy_range_uj").read_text()
                found[folder.name] = int(counted), int(most)
        except (OSError, ValueError):
            continue
    return found


def spent_j(before: Counted, after: Counted) -> float | None:
    """Return the joules of all packages between two readings less than one round of a counter apart; None if untold."""
    if not before or before.keys() != after.keys():
        return None
    return sum((after[each][0] - before[each][0]) % (after[each][1] + 1) for each in after) / 1e6
