"""What the machine itself can do, measured apart from any training: copies, products, memory, the cost of an operator.

`python -m runner.check.calibration cpu|gpu` prints one line of JSON a figure, as soon as it is known. It is a process
of its own, as whoever drives trials never touches a device; it ends in about ten seconds.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch

from runner.check.traces import traces
from runner.devices.device import Cpu, Device, DeviceUnavailable, open_device
from runner.devices.precision import set_precision
from runner.devices.threads import set_threads
from runner.environment import usable_cores
from runner.timing import elapsed_s
from runner.workloads import Workload, load
from sweeps.parameter import Value
from sweeps.workload import complete

#: A value is the median of so many blocks, each of about so many seconds.
BLOCKS = 5
BLOCK_S = 0.05
COPIED_BYTES = (4 * 2**10, 64 * 2**10, 2**20, 16 * 2**20, 256 * 2**20)
#: More than any cache holds.
STREAMED_BYTES = 256 * 2**20
#: A product is made of ever larger matrices until it takes so long, so that launching it does not count.
PRODUCT_S = 0.005
PRODUCT_SIZES = (1024, 2048, 4096, 8192)
#: Size of the product whose error is looked at.
EXAMINED = 1024
#: Steps between two events; and a step that is long enough for its launches to be hidden, made of ever larger batches.
STEPS_BETWEEN = 20
LONG_STEP_S = 0.002
BATCHES = (4096, 8192, 16384, 32768)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One figure.

    Attributes:
        name: What it is of.
        figure: The median; None if it cannot be had.
        unit: Of the figure.
        size: Bytes that are copied, rows of the matrices, or rows of a batch; None where there is nothing to choose.
        low, high: Smallest and largest of the values.
        seconds: What one copy, product or step took.
        cause: Why there is no figure; empty if there is one.
    """

    name: str
    unit: str
    figure: float | None = None
    size: int | None = None
    low: float | None = None
    high: float | None = None
    seconds: float | None = None
    cause: str = ""


def calibrate(device: Device) -> Iterator[Measured]:
    """Measure one thing after another, the dearest first.

    Args:
        device: What trials would run on. For an accelerator the CPU's own products and memory come last.
    """
    parts = {
        "operations": _operations,
        "copies": _copies,
        "products": _products,
        "memory": _stream,
        "events": _events,
        **({"the CPU itself": _host} if device.is_accelerator else {}),
    }
    for name, part in parts.items():
        try:
            yield from part(device)
        except (RuntimeError, NotImplementedError) as failure:  # as where memory runs out; the others are still told
            yield Measured(name=name, unit="", cause=_first_line(failure))


def _operations(device: Device) -> Iterator[Measured]:
    """What an operation costs that has next to nothing to compute."""
    number = torch.zeros(1, device=device.torch_device)

    def waited() -> None:
        number.add_(1)
        device.synchronize()

    yield _of_seconds("operation, not waited for", lambda: number.add_(1), device)
    yield _of_seconds("operation, waited for", waited, device)
    yield _of_seconds("operation, its value read", lambda: number.add_(1).item(), device)


def _copies(device: Device) -> Iterator[Measured]:
    """Copies of several sizes both ways; from pinned memory one after another, not waited for."""
    if not device.is_accelerator:
        yield Measured(name="copy to the device, pinned", unit="GB/s", cause="a CPU has no memory apart")
    for size in COPIED_BYTES:
        there = torch.empty(size, dtype=torch.uint8, device=device.torch_device)
        hosts = {"pageable": torch.zeros(size, dtype=torch.uint8)}
        if device.is_accelerator:
            hosts["pinned"] = torch.zeros(size, dtype=torch.uint8, pin_memory=True)
        for kind, host in hosts.items():
            for place, target, source in (("device", there, host), ("host", host, there)):
                copy = functools.partial(target.copy_, source, non_blocking=kind == "pinned")
                yield _of_rate(f"copy to the {place}, {kind}", copy, device, size / 1e9, "GB/s", size=size)


def _products(device: Device) -> Iterator[Measured]:
    for precision in ("ieee", "tf32"):
        yield from _product(device, precision)
        yield _error_of_product(device, precision)
    set_precision("ieee", device.torch_device)


def _host(_: Device) -> Iterator[Measured]:
    """The CPU's own products and memory, on one core and on all."""
    cpu = Cpu()
    for threads in dict.fromkeys((1, usable_cores())):
        set_threads(threads)
        where = f", CPU with {threads} thread{'s' if threads > 1 else ''}"
        yield from _product(cpu, "ieee", where)
        yield from _stream(cpu, where)


def _product(device: Device, precision: str, where: str = "") -> Iterator[Measured]:
    """Multiply matrices that are large enough to keep the device busy."""
    name = f"product of matrices, {precision}{where}"
    try:
        set_precision(precision, device.torch_device)
    except DeviceUnavailable as error:
        yield Measured(name=name, unit="TFLOP/s", cause=str(error))
        return
    for size in PRODUCT_SIZES:
        a = torch.randn(size, size, device=device.torch_device)
        c = torch.empty_like(a)
        multiply = functools.partial(torch.mm, a, a, out=c)
        multiply()
        if elapsed_s(multiply, device.synchronize) >= PRODUCT_S or size == PRODUCT_SIZES[-1]:
            yield _of_rate(name, multiply, device, 2 * size**3 / 1e12, "TFLOP/s", size=size)
            return


def _error_of_product(device: Device, precision: str) -> Measured:
    """How far a product is from that of twice as many bits: whether TF32 is used shows here and nowhere else."""
    name = f"error of a product, {precision}"
    try:
        set_precision(precision, device.torch_device)
    except DeviceUnavailable as error:
        return Measured(name=name, unit="of the largest", cause=str(error))
    draw = torch.Generator().manual_seed(0)
    a = torch.randn(EXAMINED, EXAMINED, generator=draw)
    exact = a.double() @ a.double()
    found = (a.to(device.torch_device) @ a.to(device.torch_device)).cpu()
    apart = float((found.double() - exact).abs().max() / exact.abs().max())
    return Measured(name=name, unit="of the largest", figure=apart, size=EXAMINED)


def _stream(device: Device, where: str = "") -> Iterator[Measured]:
    """Read and write more than caches hold."""
    source = torch.ones(STREAMED_BYTES // 4, device=device.torch_device)
    result = torch.empty_like(source)
    scale = functools.partial(torch.mul, source, 2.0, out=result)
    name = f"memory, read and written{where}"
    yield _of_rate(name, scale, device, 2 * STREAMED_BYTES / 1e9, "GB/s", size=STREAMED_BYTES)


def _events(device: Device) -> Iterator[Measured]:
    """Set the device's own clock beside ours: both have to tell the same of a step that keeps the device busy."""
    names = [f"clock of the device / ours, {length} steps" for length in ("long", "short")]
    if cause := _why_no_events(device):
        for name in names:
            yield Measured(name=name, unit="", cause=cause)
        return
    for batch in BATCHES:
        long = _training(device, width=2048, batch_size=batch)
        if elapsed_s(long.step, device.synchronize) >= LONG_STEP_S or batch == BATCHES[-1]:
            yield _of_events(names[0], long, device, size=batch)
            break
    yield _of_events(names[1], _training(device, width=256, batch_size=64), device, size=64)


def _why_no_events(device: Device) -> str:
    if not device.is_accelerator:
        return "a CPU has no events"
    try:
        _record(device)
    except (RuntimeError, NotImplementedError, ValueError) as error:
        return _first_line(error)
    return ""


def _of_events(name: str, training: Workload, device: Device, *, size: int) -> Measured:
    ratios, seconds = [], []
    for _ in range(BLOCKS):
        between: list[torch.Event] = []

        def block(between: list[torch.Event] = between) -> None:
            between.append(_record(device))
            for _ in range(STEPS_BETWEEN):
                training.step()
            between.append(_record(device))

        seconds.append(elapsed_s(block, device.synchronize))
        ratios.append(between[0].elapsed_time(between[1]) / 1e3 / seconds[-1])
    step_s = statistics.median(seconds) / STEPS_BETWEEN
    return _measured(name, "", ratios, seconds=step_s, size=size)


def _record(device: Device) -> torch.Event:
    event = torch.Event(device=device.torch_device, enable_timing=True)
    event.record()
    return event


def _training(device: Device, *, width: int, batch_size: int) -> Workload:
    """Return a training that copies nothing and waits for nothing, its first steps done."""
    asked: dict[str, Value] = {"width": width, "batch_size": batch_size, "loader": "resident"}
    made = load("mlp", None, seed=0, parameters=complete("mlp", asked, ()))
    made.prepare(device.torch_device, "calibration")
    for _ in range(10):
        made.step()
    device.synchronize()
    return made


def _of_seconds(name: str, work: Callable[[], object], device: Device) -> Measured:
    times = _times(work, device)
    return _measured(name, "s", times, seconds=statistics.median(times))


def _of_rate(name: str, work: Callable[[], object], device: Device, amount: float, unit: str, *, size: int) -> Measured:
    times = _times(work, device)
    rates = [amount / seconds for seconds in times]
    return _measured(name, unit, rates, seconds=statistics.median(times), size=size)


def _times(work: Callable[[], object], device: Device) -> list[float]:
    """Return the seconds that some work takes, one value a block."""
    elapsed_s(work, device.synchronize)
    once_s = elapsed_s(work, device.synchronize)
    count = max(1, min(10_000, round(BLOCK_S / max(once_s, 1e-7))))

    def block() -> None:
        for _ in range(count):
            work()

    return [elapsed_s(block, device.synchronize) / count for _ in range(BLOCKS)]


def _measured(name: str, unit: str, values: list[float], *, seconds: float, size: int | None = None) -> Measured:
    return Measured(
        name=name,
        unit=unit,
        figure=statistics.median(values),
        size=size,
        low=min(values),
        high=max(values),
        seconds=seconds,
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def main(kind: str) -> None:
    """Measure a device, and show what using it leaves in a process."""
    own = os.getpid()
    _tell(imported=traces(own))
    device = open_device(kind)
    set_threads(usable_cores() if device.is_accelerator else 1)
    set_precision("ieee", device.torch_device)
    torch.zeros(1, device=device.torch_device)
    device.synchronize()
    _tell(used=traces(own))
    for measured in calibrate(device):
        _tell(measured=asdict(measured))
    _tell(ended=True)


def _tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
