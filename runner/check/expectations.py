"""What is expected before anything is measured, and where the expectation comes from.

A *promise* is something that this program holds on any machine; one that is broken is a fault. Everything else is a
prediction: that the machine found otherwise is what the check is run for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Where the numbers come from.
PROMISE = "a promise of this program"
VM = "measured on 2 virtual cores (AMD Zen 3), torch 2.13; another CPU may be three times faster or slower"
PREDICTED = "predicted"
REPORTED = "reported by others for PCIe 5 hosts (nvbandwidth #24, nccl #1264)"
DATASHEET = "datasheet of the H100 and H200"
EMULATED = "the bits that TF32 keeps, emulated on a CPU"
MODEL = "predicted from about 3 us an operator on the GPU and 65 GFLOP/s a CPU core"
#: Units.
SHARE, STEP = "of the largest", "MFLOP a step"
#: GPUs that numbers of a datasheet are about.
HOPPER = ("H100", "H200", "H800", "GH200")
#: A CPU of another kind than the one that was measured.
OTHER_CPU = 3.0


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """A range for one finding.

    Attributes:
        key: Of the finding.
        what: It is about, for people.
        unit: Of the range.
        low, high: Ends of the range.
        source: Where it comes from.
        is_promise: Whether missing it is a fault.
        of: Parts of the names of the GPUs that it is about; empty for any.
    """

    key: str
    what: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    source: str = PROMISE
    is_promise: bool = False
    of: tuple[str, ...] = ()


def _promise(key: str, what: str, high: float = 0.0, unit: str = "", low: float = -math.inf) -> Expectation:
    return Expectation(key=key, what=what, unit=unit, low=low, high=high, is_promise=True)


def _guess(
    key: str, what: str, low: float, high: float, unit: str = "", source: str = PREDICTED, of: tuple[str, ...] = ()
) -> Expectation:
    return Expectation(key=key, what=what, unit=unit, low=low, high=high, source=source, of=of)


def _seen(key: str, what: str, value: float, unit: str) -> Expectation:
    """A value that was measured on one CPU and holds for others within a factor."""
    return _guess(key, what, value / OTHER_CPU, value * OTHER_CPU, unit, VM)


_EVERYWHERE = (
    _promise("ended otherwise", "trials that did not end well"),
    _promise("not forked", "trials whose process was not forked from the nursery"),
    _promise("signs in the nursery", "signs of a driver in the nursery that importing torch does not leave"),
    _promise("error, ieee", "error of a float32 product (TF32 makes it a hundred times larger)", 1e-5, SHARE),
    _guess(
        *("process start", "from asking for a trial's process to its first line (median)", -math.inf, 0.1, "s"),
        "0.016-0.026 s measured on 2 virtual cores",
    ),
    Expectation(
        key="disturbed",
        what="trials that something else disturbed on their cores, so that their times are doubtful",
        unit="of all",
        high=0.2,
        source="a machine that does nothing else meanwhile",
    ),
)

_ON_GPU = (
    _promise("loss 1", "losses of the first step, CPU against GPU: largest difference", 1e-5),
    _promise("loss 10", "losses of the tenth step, CPU against GPU: largest difference", 1e-4),
    _promise("open before", "trials on the device whose process began with the device open already"),
    _promise("not in a child", "first uses of the device in a forked process that failed"),
    _promise("events, long", "device's clock / ours, steps above 1 ms", 1.02, low=0.98),
    _guess(
        *("signs in a user", "signs of a driver in a process that has used the device", 1, math.inf),
        source="drivers work through files and libraries; without signs here, none in the nursery prove nothing",
    ),
    _guess("context", "cold start: context", 0.2, 1.0, "s"),
    _guess("first kernel", "cold start: first kernel", 1e-4, 2e-2, "s"),
    _guess("first product", "cold start: first product of matrices", 1e-2, 0.1, "s"),
    _guess("first convolution", "cold start: first convolution", 5e-2, 0.5, "s"),
    _guess("launch", "operation, not waited for", 3e-6, 7e-6, "s"),
    _guess("waited", "operation, waited for", 1e-5, 2e-5, "s"),
    _guess("read", "operation, its value read", 1.5e-5, 2.5e-5, "s"),
    _guess("pinned", "large copy from pinned memory", 37, 55, "GB/s", REPORTED),
    _guess("pageable", "large copy from pageable memory", 10, 20, "GB/s"),
    _guess("small copy", "copy of 4 KiB from pageable memory", 5e-6, 2e-5, "s"),
    _guess("product, ieee", "product of matrices, ieee", 45, 67, "TFLOP/s", DATASHEET, HOPPER),
    _guess("product, tf32", "product of matrices, tf32", 300, 450, "TFLOP/s", DATASHEET, HOPPER),
    _guess("error, tf32", "error of a TF32 product", 3e-5, 1e-2, SHARE, EMULATED),
    _guess("memory", "device memory, read and written", 3500, 4800, "GB/s", DATASHEET, ("H200",)),
    _guess("events, short", "device's clock / ours, short steps", 0.9, 1.02, source="idle gaps count in both"),
    _guess("kernels", "kernels / operators a step", 0.7, 1.3),
    _guess("kernel time", "time of kernels / time of their step", -math.inf, 1.05, source="the one lies in the other"),
    _guess("mlp against cpu-1", "mlp: where the GPU overtakes one core", 5, 10, STEP, MODEL),
    _guess("mlp against cpu", "mlp: where it overtakes all cores (of about 16)", 50, 150, STEP, MODEL),
    _guess("cnn against cpu-1", "cnn: where the GPU overtakes one core", 1, 10, STEP, MODEL),
    _guess("cnn against cpu", "cnn: where it overtakes all cores (of about 16)", 10, 150, STEP, MODEL),
)

_ON_CPU = (
    _promise("loss 1", "losses of the first step, one core against all: largest difference", 1e-6),
    _promise("loss 10", "losses of the tenth step, one core against all: largest difference", 1e-5),
    _seen("context", "cold start: context", 1e-4, "s"),
    _seen("first kernel", "cold start: first kernel", 1.6e-3, "s"),
    _seen("first product", "cold start: first product of matrices", 2.3e-3, "s"),
    _seen("first convolution", "cold start: first convolution", 4e-4, "s"),
    _seen("waited", "operation, waited for", 3.7e-6, "s"),
    _seen("product, ieee", "product of matrices, one core", 0.0715, "TFLOP/s"),
    _seen("memory", "memory, read and written by one core", 33.0, "GB/s"),
)


def expectations(device: str, gpu_name: str | None) -> list[Expectation]:
    """Return what is expected of a device; numbers of a datasheet for the hardware that it is about only.

    Args:
        device: `cpu` or `gpu`.
        gpu_name: Of the accelerator, if there is one.
    """
    every = [*_EVERYWHERE, *(_ON_GPU if device == "gpu" else _ON_CPU)]
    return [each for each in every if not each.of or any(name in (gpu_name or "") for name in each.of)]
