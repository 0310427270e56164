"""How a step is timed, and the only place that reads the clock.

One clock for every device: host wall time of a block of steps, with the device synchronised at both ends. The
order is warm-up, block size, blocks until the median is known well enough. Nothing is measured, logged or
collected between the two clock readings of a block. Each constant has its reason beside it.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

Clock = Callable[[], int]

#: Nanoseconds of a clock that all processes of one machine share.
now_ns: Clock = time.perf_counter_ns

#: Steps whose loss goes into the row. The same seed makes the same step on every target. All lie in the warm-up.
LOSS_STEPS = (1, 10)

#: t(0.975, df) for df = 1 ... 30: scipy is not needed in the trial's process for 30 numbers.
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """When to stop warming up and when to stop timing.

    Attributes:
        warmup_steps: Steps at least, unless the cap comes first: caches and lazy set-up settle within 8.
        warmup_s: Seconds at least. Never time alone: one slow first step could use it up.
        warmup_cap_s: Seconds after which warming up ends, settled or not.
        settled: Largest relative spread of three blocks in a row that counts as settled.
        block_s: A block holds about this much work, so that a clock call (60-100 ns) costs under 0.01 %.
        block_least_s: A shorter block means that the block size was taken from slow steps: it is enlarged.
        long_step_s: From here on a step is its own block and `least_long` values are enough.
        least: Values at least.
        least_long: Values at least where a step is long.
        least_s: Seconds of timed work at least, except for long steps.
        most: Values at most.
        most_s: Seconds of timed work at most.
        precision: Stop when the half width of the 95 % interval of the median is below this share of it.
    """

    warmup_steps: int = 10
    warmup_s: float = 0.2
    warmup_cap_s: float = 2.0
    settled: float = 0.10
    block_s: float = 0.020
    block_least_s: float = 0.010
    long_step_s: float = 0.3
    least: int = 10
    least_long: int = 5
    least_s: float = 0.2
    most: int = 30
    most_s: float = 20.0
    precision: float = 0.02


#: An accelerator needs longer to reach its clocks.
ACCELERATOR = Protocol(warmup_s=0.5)
CPU = Protocol()


def shortened(protocol: Protocol, most: int) -> Protocol:
    """Return a protocol that takes exactly so many values, however exact they are, for a search that looks roughly.

    The seconds of the warm-up become fewer in the same measure: it would else be most of what a short trial costs. Its
    steps do not, nor does it end before it has settled; so the losses that are compared are there as always.

    Args:
        protocol: The usual one.
        most: Values wanted, at least 1. Seconds of timed work at most stay as they are.
    """
    share = min(1.0, most / protocol.least)
    return replace(
        protocol,
        least=most,
        least_long=most,
        most=most,
        least_s=0.0,
        warmup_s=share * protocol.warmup_s,
        warmup_cap_s=share * protocol.warmup_cap_s,
    )


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What was measured.

    Attributes:
        step_times_s: Seconds per step, one value a block, in order.
        steps_per_block: Steps of each of these blocks.
        warmup_steps: Steps before them, the first step included.
        warmup_s: Seconds that these took.
        first_step_s: Seconds of the very first step, synchronised.
        losses: Loss of the steps in `LOSS_STEPS` that the warm-up had time for, by step number from 1; none where a
            step returns no number.
    """

    step_times_s: list[float]
    steps_per_block: int
    warmup_steps: int
    warmup_s: float
    first_step_s: float
    losses: dict[int, float]


def measure(
    step: Callable[[], object],
    synchronize: Callable[[], None],
    *,
    protocol: Protocol = CPU,
    clock: Clock = now_ns,
    when_warm: Callable[[], object] = lambda: None,
    cycle: int = 1,
    waits: bool = True,
) -> Timing:
    """Time a training step.

    Args:
        step: Does one step and returns its loss, not waited for. The loss has an `item()` method.
        synchronize: Waits until the device has done all its work.
        protocol: When to stop.
        clock: Returns nanoseconds.
        when_warm: Called between the warm-up and the first timed block, and again where that block turns out too
            short to count: the place to read counters.
        cycle: Steps after which the work repeats, where steps are not all alike: each timed block holds whole cycles.
        waits: False reads the clock at the end of a timed block without waiting, as wrong benchmarks do. A block is
            then as short as can be, one cycle, for a device takes only so much work in advance; it is waited for
            between blocks.

    Returns:
        The raw values; medians and intervals are derived where they are needed.
    """
    first_step_s, loss = _Blocks(step, synchronize, clock).run(1)
    losses = _numbers({1: loss})
    warm = _Blocks(step, synchronize, clock, steps=1)  # the seconds of the first step must not use up the cap
    gc.collect()
    gc.disable()
    try:
        recent: list[float] = []
        per_block = cycle
        while not _is_warm(warm, recent, protocol):
            count = min([per_block, *(n - warm.steps for n in LOSS_STEPS if n > warm.steps)])
            block_s, loss = warm.run(count)
            if warm.steps in LOSS_STEPS:
                losses |= _numbers({warm.steps: loss})
            recent = [*recent[-2:], block_s / count]
            per_block = _block_size(block_s / count, protocol, cycle)
        per_block = _block_size(min(recent), protocol, cycle) if waits else cycle
        timed = _Blocks(step, synchronize, clock, waits=waits)
        values: list[float] = []
        when_warm()
        while not _is_enough(values, timed.seconds, protocol):
            block_s, _ = timed.run(per_block)
            if waits and not values and block_s < protocol.block_least_s:
                per_block = max(per_block + cycle, _block_size(block_s / per_block, protocol, cycle))
                warm.steps += timed.steps
                warm.seconds += timed.seconds
                timed = _Blocks(step, synchronize, clock)
                when_warm()
                continue
            values.append(block_s / per_block)
    finally:
        gc.enable()
    return Timing(
        step_times_s=values,
        steps_per_block=per_block,
        warmup_steps=warm.steps,
        warmup_s=first_step_s + warm.seconds,
        first_step_s=first_step_s,
        losses=losses,
    )


def elapsed_s(work: Callable[[], object], synchronize: Callable[[], None], clock: Clock = now_ns) -> float:
    """Return the seconds that some work takes, device work included."""
    seconds, _ = _Blocks(work, synchronize, clock).run(1)
    return seconds


class _Blocks:
    """Runs blocks of steps and adds up what they took."""

    def __init__(
        self,
        step: Callable[[], object],
        synchronize: Callable[[], None],
        clock: Clock,
        *,
        steps: int = 0,
        waits: bool = True,
    ) -> None:
        self._step, self._synchronize, self._clock, self._waits = step, synchronize, clock, waits
        self.steps = steps
        self.seconds = 0.0

    def run(self, count: int) -> tuple[float, object]:
        """Run `count` steps; return their seconds and the last loss."""
        step, clock = self._step, self._clock
        self._synchronize()
        start = clock()
        for _ in range(count):
            loss = step()
        if self._waits:
            self._synchronize()
        seconds = (clock() - start) / 1e9
        self.steps += count
        self.seconds += seconds
        return seconds, loss


def _is_warm(warm: _Blocks, recent: list[float], protocol: Protocol) -> bool:
    if warm.seconds >= protocol.warmup_cap_s:
        return True
    long_enough = warm.steps >= protocol.warmup_steps and warm.seconds >= protocol.warmup_s
    return long_enough and len(recent) == 3 and max(recent) <= min(recent) * (1 + protocol.settled)


def _block_size(step_s: float, protocol: Protocol, cycle: int) -> int:
    cycles = round(protocol.block_s / step_s / cycle) if step_s > 0 else 1_000_000 // cycle
    return cycle * max(1, cycles)


def _is_enough(values: list[float], seconds: float, protocol: Protocol) -> bool:
    if not values:
        return False
    if len(values) >= protocol.most or seconds >= protocol.most_s:
        return True
    long_steps = statistics.median(values) > protocol.long_step_s
    if len(values) < (protocol.least_long if long_steps else protocol.least):
        return False
    if not long_steps and seconds < protocol.least_s:
        return False
    return half_width_of_median(values) < protocol.precision


def half_width_of_median(values: list[float]) -> float:
    """Return the relative half width of the 95 % interval of the median, from the quartiles.

    t(.975, n - 1) * 1.2533 * (IQR of ln t / 1.349) / sqrt(n): the standard error of a median under normal noise,
    with the spread taken from the quartiles so that a few slow spikes do not decide.
    """
    n = len(values)
    low, _, high = statistics.quantiles((math.log(v) for v in values), n=4, method="inclusive")
    return math.expm1(_T_975[min(n - 1, len(_T_975)) - 1] * 1.2533 * (high - low) / 1.349 / math.sqrt(n))


def _numbers(losses: dict[int, object]) -> dict[int, float]:
    """Read losses, by step; what is no number is left out."""
    read = {number: loss.item() if hasattr(loss, "item") else loss for number, loss in losses.items()}
    return {number: float(loss) for number, loss in read.items() if isinstance(loss, int | float)}
