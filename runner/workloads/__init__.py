"""The training benchmark: one file a family, each a class that knows models and never devices.

`load` turns the name in a trial into an object with `prepare` and `step`; see workload.py for the contract.
"""

from runner.workloads.load import load
from runner.workloads.workload import FIGURES, Workload

__all__ = ["FIGURES", "Workload", "load"]
