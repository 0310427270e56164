"""Was a trial alone on its cores? Counters of the kernel before and after the timed part say so.

Only what happened to this process counts: how long its threads were ready to run and had no core, how long a CPU quota
held it back, how long the hypervisor gave the cores to others. Load averages would include the trial itself. What a
guest cannot see, another guest on the same host that slows caches and memory, stays unseen.

CPU time over wall time is not asked: a step whose operations are too small to be shared between threads leaves some of
them idle on a quiet machine too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from runner.environment import cpu_cgroups
from runner.timing import now_ns

#: Share of the time that a thread waited for a core: quiet machines show 0.00-0.02, one busy neighbour 0.24-0.67.
CLEAN = 0.02
SUSPECT = 0.05
#: A trial that uses every core shares them with Ray's own processes: 0.04-0.15 on two quiet cores.
SUSPECT_WITHOUT_SPARE_CORE = 0.2
#: Share of the time that was stolen or throttled from which a trial counts as contended.
TAKEN = 0.01

TASKS = Path("/proc/self/task")
STAT = Path("/proc/stat")


@dataclass(frozen=True, kw_only=True)
class Counters:
    """What the kernel had counted at one moment; None where it does not tell.

    Attributes:
        at_ns: When, by the clock of the trial.
        delay_ns: By thread of this process: time that it was ready and waited for a core.
        throttled_s: Time that the quotas of the enclosing cgroups held tasks back.
        stolen: Ticks that the hypervisor gave to others, and all ticks, of all cores together.
    """

    at_ns: int
    delay_ns: dict[str, int] | None
    throttled_s: float | None
    stolen: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class Interference:
    """The verdict on one trial.

    Attributes:
        verdict: clean, suspect, contended, or unknown where the kernel does not tell.
        run_delay_share: Time that the threads waited for a core / (wall time x threads of the trial).
        throttled_s: Seconds.
        steal_share: Of the time of all cores.
    """

    verdict: str
    run_delay_share: float | None
    throttled_s: float | None
    steal_share: float | None


def read_counters() -> Counters:
    """Read the counters of this process and its machine. Takes well under a millisecond; call it outside a block."""
    return Counters(at_ns=now_ns(), delay_ns=_delays(), throttled_s=_throttled_s(), stolen=_stolen())


def judge(before: Counters, after: Counters, *, threads: int, cores: int, wait_policy: str = "default") -> Interference:
    """Compare two readings.

    Args:
        before: Taken when warm-up was over.
        after: Taken after the last block.
        threads: Threads of the trial that have work at one time: 1 where they only feed an accelerator.
        cores: Cores that it could have used.
        wait_policy: With `passive`, sleeping threads can be woken on a core that is taken: waiting proves no neighbour.
    """
    wall_s = max((after.at_ns - before.at_ns) / 1e9, 1e-9)
    delay = None
    if before.delay_ns is not None and after.delay_ns is not None:
        waited = sum(after.delay_ns[task] - before.delay_ns.get(task, 0) for task in after.delay_ns)
        delay = waited / 1e9 / wall_s / threads
    throttled = None
    if before.throttled_s is not None and after.throttled_s is not None:
        throttled = after.throttled_s - before.throttled_s
    steal = None
    if before.stolen is not None and after.stolen is not None:
        ticks = after.stolen[1] - before.stolen[1]
        steal = (after.stolen[0] - before.stolen[0]) / ticks if ticks > 0 else 0.0
    suspect = SUSPECT if threads < cores else SUSPECT_WITHOUT_SPARE_CORE
    if wait_policy == "passive":
        suspect = math.inf
    return Interference(
        verdict=_verdict(delay, throttled, steal, wall_s, suspect=suspect),
        run_delay_share=delay,
        throttled_s=throttled,
        steal_share=steal,
    )


def _verdict(
    delay: float | None, throttled_s: float | None, steal: float | None, wall_s: float, *, suspect: float
) -> str:
    if (throttled_s or 0.0) > TAKEN * wall_s or (steal or 0.0) > TAKEN:
        return "contended"
    if delay is None:
        return "unknown"
    return "clean" if delay <= CLEAN else "suspect" if delay <= suspect else "contended"


def _delays() -> dict[str, int] | None:
    found = {}
    try:
        for task in TASKS.iterdir():
            fields = (task / "schedstat").read_text().split()
            found[task.name] = int(fields[1])
    except (OSError, IndexError, ValueError):
        return None  # not Linux, a kernel without the counter, or a thread that ended meanwhile
    return found


def _throttled_s() -> float | None:
    """Seconds that the quotas of the enclosing cgroups have held tasks back; None outside Linux."""
    folders = cpu_cgroups()
    found = 0.0
    for folder in folders:
        try:
            counters = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue
        found += int(counters.get("throttled_usec", 0)) / 1e6 + int(counters.get("throttled_time", 0)) / 1e9
    return found if folders else None


def _stolen() -> tuple[int, int] | None:
    try:
        ticks = [int(field) for field in STAT.read_text().split("\n", 1)[0].split()[1:9]]
        return ticks[7], sum(ticks)
    except (OSError, ValueError, IndexError):
        return None
