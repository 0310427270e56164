"""With this folder on PYTHONPATH every Python has an accelerator whose work ends late, and a check that is soon done.

Its tensors lie on the CPU. Each operator takes it `OPERATOR_NS`, one after another and in real time, while the call
that gave it returns at once; opening it takes `OPENING_NS`. Reading a value waits, as does `synchronize`, and nothing
else.
"""

import importlib.abc
import importlib.machinery
import os
import sys
import time

OPERATOR_NS = 200_000
OPENING_NS = round(float(os.environ.get("LATE_OPENING_S", "0.25")) * 1e9)


class Late:
    """The device, behind the contract of `runner.devices.device.Device`."""

    is_accelerator = True
    name = "Late GPU"
    memory_bytes = 2**33
    uuid = None

    def __init__(self, torch):
        self.torch_device = torch.device("cpu")
        self._done_ns = time.perf_counter_ns() + OPENING_NS

    def give(self):
        self._done_ns = max(self._done_ns, time.perf_counter_ns()) + OPERATOR_NS

    def synchronize(self):
        time.sleep(max(0, self._done_ns - time.perf_counter_ns()) / 1e9)

    def reset_peak_memory(self):
        pass

    def peak_memory_bytes(self):
        return None


def make_late(devices):
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Given(TorchDispatchMode):
        """Gives the device every operator that computes something."""

        def __init__(self, device):
            super().__init__()
            self.device = device

        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            if operator.overloadpacket.__name__ == "_local_scalar_dense":
                self.device.synchronize()
            elif not operator.is_view and not operator.overloadpacket.__name__.startswith(("empty", "detach")):
                self.device.give()
            return operator(*args, **(kwargs or {}))

    usual = devices.open_device

    def open_device(kind):
        if kind == "cpu":
            return usual(kind)
        device = Late(torch)
        Given(device).__enter__()
        return device

    devices.open_device = open_device
    torch.accelerator.device_count = lambda: 1


def make_short(plan):
    for asked in plan._STUDIES.values():
        asked.sizes["gpu"] = asked.taken_apart["gpu"] = asked.sizes["cpu"][:1]
        asked.parameters["gpu"] = asked.parameters["cpu"]
    plan.PASSES["gpu"], plan.MOST_STEPS["gpu"] = 1, 2


CHANGES = {"runner.devices.device": make_late, "runner.check.plan": make_short}


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Changes modules of ours as they are loaded."""

    def find_spec(self, name, path=None, target=None):
        if name not in CHANGES:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path)
        self.loader, found.loader = found.loader, self
        return found

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self.loader.exec_module(module)
        CHANGES[module.__name__](module)


if __name__ == "sitecustomize":  # and not where a test looks up how long an operator takes
    sys.meta_path.insert(0, Changed())
