"""Whether every family runs at small sizes, on one core and on all of them, and its rows say what rows should say.

    python benchmarks/families.py

One sweep a family through one embedded Ray: two sizes, two targets, one pass. `wall_s` counts the start of Ray too.
`rows_lacking` are rows that are not ok or that leave something out; what, is printed before the last line.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.figures import conclude
from runner.cluster import Cluster
from runner.environment import code_version
from runner.executor import Executor
from runner.progress import Progress
from runner.run import run
from runner.store import Store
from sweeps.definition import Sweep
from sweeps.families import FAMILIES
from sweeps.study import LOG, read_records

TARGETS = {"wall_s": 180.0, "rows_lacking": 0.0}

#: What is smaller than by default.
SMALL: Mapping[str, Mapping[str, int]] = {
    "linear": {"rows": 256, "features": 100, "epochs": 1},
    "mlp": {"features": 32, "width": 32},
    "cnn": {"channels": 4, "image": 16},
    "transformer": {"width": 32, "layers": 1, "sequence": 16},
    "lstm_loop": {"features": 16, "hidden": 16, "sequence": 8},
    "lstm_fused": {"features": 16, "hidden": 16, "sequence": 8},
    "branching": {"features": 32, "width": 32, "depth": 4},
    "straight": {"features": 32, "width": 32, "depth": 4},
    "embedding": {"vocabulary": 1000, "width": 16},
    "gemm": {},
}
#: Of the first axis: gemm has no batch.
SIZES = (8, 32)

#: Columns that are above zero whatever is trained.
COUNTED = ("flops_per_step", "ops_per_step", "h2d_bytes_per_step", "first_step_s", "warmup_steps")
#: Columns that say who measured.
ENVIRONMENT = ("host", "cpu_model", "cores_logical", "cores_usable", "memory_bytes", "torch", "python", "os")


def sweeps(sizes: tuple[int, ...] = SIZES) -> list[Sweep]:
    """Return the sweep of each family."""
    return [
        Sweep.model_validate(
            {
                "name": family,
                "workload": family,
                "parameters": dict(SMALL[family]),
                "axes": {"batch_size" if "batch_size" in FAMILIES[family].parameters else "size": list(sizes)},
                "targets": ["cpu-1", "cpu"],
                "passes": 1,
            }
        )
        for family in FAMILIES
    ]


def rows_of(sweep: Sweep, executor: Executor, folder: Path) -> list[dict[str, Any]]:
    """Run a sweep into a study; return the final row of each trial."""
    plan = sweep.pairs()
    with (
        contextlib.closing(Store(folder, sweep)) as store,
        Progress(Console(), folder / LOG, total=sweep.size) as progress,
    ):
        run(
            plan,
            plan,
            store,
            executor,
            progress,
            axis=sweep.axis,
            by_target=sweep.pairing == "by_target",
            code_version=code_version(None),
        )
    found = read_records(folder)[0].sort_by("attempt").to_pylist()
    return list({row["trial_id"]: row for row in found}.values())


def lacking(row: Mapping[str, Any]) -> list[str]:
    """Return what a row should say and does not."""
    if row["status"] != "ok":
        return [f"{row['status']}: {row['error_message']}"]
    wrong = [name for name in COUNTED if not (row[name] or 0) > 0]
    wrong += [name for name in ENVIRONMENT if not row[name]]
    asked = 1 if row["target"] == "cpu-1" else row["cores_usable"]
    wrong += [name for name in ("threads_requested", "threads_observed") if row[name] != asked]
    return wrong


def main() -> None:
    """Run and print."""
    began = time.monotonic()
    rows = []
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(Cluster(None)) as cluster:
        for sweep in sweeps():
            rows += rows_of(sweep, cluster, Path(folder) / sweep.name)
    figures = {
        "wall_s": time.monotonic() - began,
        "families": len(FAMILIES),
        "rows": len(rows),
        "rows_planned": sum(sweep.size for sweep in sweeps()),
        "rows_lacking": 0,
    }
    for row in rows:
        if wrong := lacking(row):
            figures["rows_lacking"] += 1
            print(f"{row['workload']} on {row['target']}: {', '.join(wrong)}", flush=True)
    ok = figures["wall_s"] <= TARGETS["wall_s"] and figures["rows"] == figures["rows_planned"]
    conclude("families", ok=ok and not figures["rows_lacking"], figures=figures, targets=TARGETS)


if __name__ == "__main__":
    main()
