"""Every family at sizes that train in a blink, and what is looked at while they do."""

from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from runner.workloads import load
from sweeps.workload import complete, on_device

CPU = torch.device("cpu")
SMALL = {
    "linear": {"rows": 96, "features": 20, "classes": 5, "batch_size": 16, "epochs": 2},
    "mlp": {"features": 12, "width": 24, "depth": 3, "classes": 5, "batch_size": 16},
    "cnn": {"channels": 4, "image": 10, "classes": 5, "batch_size": 16},
    "transformer": {
        "vocabulary": 20,
        "width": 12,
        "layers": 2,
        "heads": 3,
        "sequence": 6,
        "classes": 5,
        "batch_size": 16,
    },
    "lstm_loop": {"features": 12, "hidden": 16, "sequence": 4, "classes": 5, "batch_size": 4},
    "lstm_fused": {"features": 12, "hidden": 16, "sequence": 4, "classes": 5, "batch_size": 4},
    "branching": {"features": 12, "width": 24, "depth": 3, "classes": 5, "batch_size": 16},
    "straight": {"features": 12, "width": 24, "depth": 3, "classes": 5, "batch_size": 16},
    "embedding": {"vocabulary": 30, "width": 24, "bag": 3, "classes": 5, "batch_size": 16},
    "gemm": {"size": 8},
}
#: Those that are trained, and so have the levers.
TRAINED = [family for family in SMALL if family != "gemm"]
TWINS = [("lstm_loop", "lstm_fused"), ("branching", "straight")]


def made_of(family, *, seed=0, rung="e2e", accelerator=False, **parameters):
    """Make a small workload as a trial asks for it; for an accelerator the levers of one are kept."""
    sizes = {} if parameters.keys() >= {"m", "n", "k"} else SMALL[family]  # what follows a size needs none
    asked = complete(family, {**sizes, **parameters}, ())
    return load(family, None, seed=seed, parameters=on_device(family, asked, accelerator=accelerator), rung=rung)


def prepared(family, *, device=CPU, **asked):
    made = made_of(family, **asked)
    made.prepare(device, "cpu")
    return made


def losses(made, count):
    return [made.step().item() for _ in range(count)]


class Operators(TorchDispatchMode):
    """Counts what reaches the CPU below autograd by name: no views, no allocations, no marks for the profiler."""

    def __init__(self):
        super().__init__()
        self.names = Counter()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator.overloadpacket.__name__
        if not operator.is_view and name not in ("detach", "_unsafe_view") and not name.startswith(NO_WORK):
            self.names[name] += 1
        return operator(*args, **(kwargs or {}))


NO_WORK = ("empty", "new_empty", "_record_function")


def operators(made):
    """Count those of one step, without what its loader does on the host."""
    made.step()
    made.bring()
    with Operators() as seen:
        made._read(made.train())
    return seen.names


def numbers_of(batches):
    """Return which rows each batch has, of data whose labels are the numbers of their rows."""
    return [labels.tolist() for _, labels in batches]
