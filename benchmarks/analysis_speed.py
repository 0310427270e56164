"""How long a million rows on disk take to become the crossovers of a thousand groups, and how that grows.

    python benchmarks/analysis_speed.py

Writes the trials of made studies as Parquet with all columns of a study, 10 step times a row, 1,000 rows a group (20
batch sizes, 25 passes, 2 targets). A new process then reads what `analysis.crossovers` looks at, and concludes; that
is repeated, the studies in turn. Prints one line of JSON, of medians:

- `rows_<n>_s`: from the files to the crossovers, the start of Python and its imports left out; `rows_<n>_read_s` of
  that is reading, and `rows_<n>_cpu_s` is CPU time, which other programs lengthen less;
- `rows_<n>_peak_bytes`: most memory of that process, Python and the libraries included;
- `growth_exponent`: p in CPU time ~ rows^p from 100,000 to 1,000,000 rows; 1 is linear;
- `cpu_time_ratio`: CPU time of 1,000,000 rows over that of 10,000; 100 is linear;
- `whole_study_read_s`: all columns of 1,000,000 rows, with the checks of every report (`sweeps.study.read_records`);
- `thousand_groups_s`, `thousand_groups_cpu_s`: a frame in memory, 1,000 groups of 14 sizes and 5 passes, to crossovers,
  the quickest of a few times;
- `others_share`: how much of all cores other programs used meanwhile. Above 0.02 the machine was not quiet; a wall time
  over its target is then judged by the CPU time, which is about what a quiet machine would take.
"""

from __future__ import annotations

import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from analysis import crossovers
from benchmarks.simulator import simulate
from sweeps.record import SCHEMA_VERSION, schema
from sweeps.study import TRIALS, read_records

Ints = npt.NDArray[np.int64]

ROWS = (10_000, 100_000, 1_000_000)
REPEATS = 3
SIZES = 2.0 ** np.arange(20)
PASSES, STEPS = 25, 10
TARGETS_OF_ROWS = ("cpu", "gpu")
ROWS_A_GROUP = len(SIZES) * PASSES * len(TARGETS_OF_ROWS)
ROWS_A_PART = 10_000
#: Parameters that tell the groups apart.
GROUPED = ("features", "width", "depth")
#: What `analysis.crossovers` looks at.
READ = (
    *("batch_size", "target", "pass_index", "status", "step_times_s", "paired", "attempt", "trial_id", "rung"),
    *("interference", "deadline_s", "started_at", "finished_at"),
)
TARGETS = {
    "rows_1000000_s": 10.0,
    "rows_1000000_peak_bytes": 2e9,
    "growth_exponent": 1.15,
    "cpu_time_ratio": 115.0,
    "thousand_groups_cpu_s": 0.5,
}


def write_study(folder: Path, *, rows: int) -> None:
    """Write the records of a made study, in the order of a run: pass by pass, each in an order of its own.

    Args:
        folder: The study; its `trials/` is made.
        rows: A multiple of the rows of a group.
    """
    (folder / TRIALS).mkdir(parents=True)
    rng = np.random.default_rng(rows)
    groups = rows // ROWS_A_GROUP
    per_pass = np.arange(groups * len(SIZES) * len(TARGETS_OF_ROWS))
    order = np.concatenate([rng.permutation(per_pass) for _ in range(PASSES)])
    passed = np.repeat(np.arange(PASSES), len(per_pass))
    for number, start in enumerate(range(0, rows, ROWS_A_PART)):
        part = slice(start, start + ROWS_A_PART)
        table = _part(order[part], passed[part], np.arange(rows)[part], rng)
        pq.write_table(table, folder / TRIALS / f"part-{number:05}.parquet")


def _part(
    order: Ints,
    passed: Ints,
    number: Ints,
    rng: np.random.Generator,
) -> pa.Table:
    """Records of trials, given which of their pass they are, their pass, and their number in the study."""
    n = len(order)
    group, rest = np.divmod(order, len(SIZES) * len(TARGETS_OF_ROWS))
    index, side = np.divmod(rest, len(TARGETS_OF_ROWS))
    change = 6 + 8 * (group % 97) / 97  # in octaves, another for each group
    floor = np.where(side == 1, np.logaddexp(math.log(0.7), math.log(0.3) + (index - change) * math.log(2)), 0)
    typical = np.where(side == 1, floor, (index - change) * math.log(2))
    logs = typical + 0.03 * rng.standard_normal(n)
    times_s = np.exp(math.log(1e-2) + logs[:, None] + 0.05 * rng.standard_normal((n, STEPS)))
    stamps = (datetime(2026, 1, 1, tzinfo=UTC).timestamp() + number) * 1e6
    config = [f"{g:08x}{i:08x}" for g, i in zip(group.tolist(), index.tolist(), strict=True)]
    pair = [f"{c}-{p:03x}" for c, p in zip(config, passed.tolist(), strict=True)]
    known: dict[str, Any] = {
        "schema_version": pa.scalar(SCHEMA_VERSION, pa.int64()),
        "sweep": "speed",
        "trial_id": [f"{p}-{s}" for p, s in zip(pair, side.tolist(), strict=True)],
        "config_id": config,
        "pair_id": pair,
        "pair_order": side,
        "paired": True,
        "pass_index": passed,
        "rung": "e2e",
        "attempt": pa.scalar(1, pa.int64()),
        "workload": "mlp",
        "features": 2 ** (group % 10),
        "width": 2 ** (group // 10 % 10),
        "depth": 1 + group // 100,
        "batch_size": SIZES[index].astype(np.int64),
        "target": np.array(TARGETS_OF_ROWS, dtype=object)[side],
        "device": np.array(["cpu", "cuda"], dtype=object)[side],
        "threads_requested": pa.scalar(8, pa.int64()),
        "threads_observed": pa.scalar(8, pa.int64()),
        "status": "ok",
        "deadline_s": 120.0,
        "step_times_s": pa.ListArray.from_arrays(np.arange(0, n * STEPS + 1, STEPS), pa.array(times_s.ravel())),
        "steps_per_block": pa.scalar(1, pa.int64()),
        "interference": "clean",
        "host": "node-1",
        "cpu_model": "Example CPU 3000",
        "torch": "2.13.0",
        "started_at": stamps.astype(np.int64),
        "finished_at": (stamps + 9e5).astype(np.int64),
    }
    described = schema([dict.fromkeys((*GROUPED, "batch_size"), 1)])
    columns = []
    for field in described:
        value = known.get(field.name)
        if value is None:
            columns.append(pa.nulls(n, field.type))
        elif isinstance(value, str | bool | float | pa.Scalar):
            columns.append(pa.repeat(pa.scalar(value), n).cast(field.type))
        else:
            columns.append((value if isinstance(value, pa.Array) else pa.array(value)).cast(field.type))
    return pa.Table.from_arrays(columns, schema=described)


def conclude_study(folder: Path) -> dict[str, float]:
    """Read a study and conclude; return what that took of this process."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    frame = pq.read_table(folder / TRIALS, columns=[*READ, *GROUPED]).to_pandas()
    read_s = time.perf_counter() - began_s
    answer = crossovers(frame, axis="batch_size", baseline="cpu", challenger="gpu", group_by=GROUPED)
    found = {
        "s": time.perf_counter() - began_s,
        "read_s": read_s,
        "cpu_s": time.process_time() - began_cpu_s,
        "peak_bytes": _peak_bytes(),
    }
    if len(answer) != len(frame) // ROWS_A_GROUP or not (answer["verdict"] == "crosses").all():
        raise RuntimeError(f"not what was written: {answer['verdict'].value_counts().to_dict()}")
    return found


def _peak_bytes() -> float:
    # getrusage would count the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024.0 * int(status.partition("VmHWM:")[2].split()[0])


def read_whole_study(folder: Path) -> dict[str, float]:
    """Read a study as a report does."""
    began_s = time.perf_counter()
    _, warnings = read_records(folder)
    if warnings:
        raise RuntimeError(f"not what was written: {warnings}")
    return {"s": time.perf_counter() - began_s}


def conclude_thousand_groups() -> dict[str, float]:
    """Conclude from a frame in memory, a few times; the quickest, as what else runs can only add."""
    frame = simulate("clean", groups=1000, passes=5, seed=1, sizes=14, steps=STEPS).frame
    wall_s, cpu_s = [], []
    for _ in range(2 * REPEATS):
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        crossovers(frame, axis="size", baseline="cpu", challenger="gpu", group_by=["sweep"])
        wall_s.append(time.perf_counter() - began_s)
        cpu_s.append(time.process_time() - began_cpu_s)
    return {"s": min(wall_s), "cpu_s": min(cpu_s)}


#: What a new process does.
PARTS: dict[str, Callable[..., dict[str, float]]] = {
    "conclude": lambda folder: conclude_study(Path(folder)),
    "read": lambda folder: read_whole_study(Path(folder)),
    "groups": conclude_thousand_groups,
}


def in_new_process(part: str, *arguments: str) -> dict[str, float]:
    """Run a part of this file in a new interpreter; return the figures that it prints."""
    done = subprocess.run([sys.executable, __file__, part, *arguments], check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Write, measure in new processes, and print."""
    from benchmarks.figures import (
        QUIET_SHARE,
        Others,
        conclude,
    )  # imports torch, which the measured processes shall not

    others = Others()
    found: dict[int, list[dict[str, float]]] = {rows: [] for rows in ROWS}
    with tempfile.TemporaryDirectory() as place:
        for rows in ROWS:
            write_study(Path(place, str(rows)), rows=rows)
        for _ in range(REPEATS):
            for rows in ROWS:
                found[rows].append(in_new_process("conclude", str(Path(place, str(rows)))))
        figures = {"whole_study_read_s": in_new_process("read", str(Path(place, str(ROWS[-1]))))["s"]}
    figures |= {
        f"rows_{rows}_{what}": statistics.median(each[what] for each in found[rows])
        for rows in ROWS
        for what in found[rows][0]
    }
    figures |= {f"thousand_groups_{what}": value for what, value in in_new_process("groups").items()}
    small, middle, large = (figures[f"rows_{rows}_cpu_s"] for rows in ROWS)
    figures |= {"growth_exponent": math.log10(large / middle), "cpu_time_ratio": large / small}
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    figures["others_share"] = others.share(sum(each.ru_utime + each.ru_stime for each in used))
    late = {name for name, target in TARGETS.items() if figures[name] > target}
    if figures["others_share"] > QUIET_SHARE and figures["rows_1000000_cpu_s"] <= TARGETS["rows_1000000_s"]:
        late.discard("rows_1000000_s")
    conclude("analysis_speed", ok=not late, figures=figures, targets=TARGETS)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(PARTS[sys.argv[1]](*sys.argv[2:])))
    else:
        main()
