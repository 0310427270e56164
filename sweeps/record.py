"""A record: what a trial answers. One flat row, whatever happened; a failure is a row too.

Schema history (`schema_version`):
    1  first version
    2  levers as parameters, which can be null; rungs; how a target was used; state of the accelerator, memory, energy
    3  prepare_s: opening the device, making data and model
    4  stages of a cold start; what making a mode took; trainings side by side; a limit of memory; recorded_in
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sweeps.errors import printable
from sweeps.families import KNOWN
from sweeps.parameter import Value

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 4
#: Rows of an older schema name their trials in another way: such a study can be reported on, not continued.
CONTINUED_SINCE = 2
LONGEST_LINE = 160
#: Interference of a trial that something else disturbed.
CONTENDED = "contended"

STATUSES = (
    "ok",
    "oom",
    "timeout",
    "error",
    "crashed",
    "invalid",
    "node_lost",
    "unavailable",
    "skipped_larger",
)
#: Final answers. A trial whose final row has another status is asked again by the next run.
DONE = frozenset({"ok", "oom", "timeout", "error", "crashed", "invalid", "skipped_larger"})
#: Statuses that make a finished sweep end with exit code 3.
FAILED = frozenset({"error", "crashed", "timeout", "node_lost", "invalid"})


def _asked(arrow: str, meaning: str) -> Any:
    """A column that every row has."""
    return field(metadata={"arrow": arrow, "unit": "", "meaning": meaning})


def _answered(arrow: str, meaning: str, *, unit: str = "", default: Any = None) -> Any:
    """A column that a row may not have an answer for."""
    return field(default=default, metadata={"arrow": arrow, "unit": unit, "meaning": meaning})


@dataclass(frozen=True, kw_only=True)
class Record:
    """One row. None is "not known", and `null_reasons` says why; `parameters` become columns of their own."""

    schema_version: int = _answered("int64", "version of this row's columns", default=SCHEMA_VERSION)
    sweep: str = _asked("string", "name of the sweep")
    trial_id: str = _asked("string", "identity of what was asked")
    config_id: str = _asked("string", "identity of the configuration")
    pair_id: str = _asked("string", "identity of configuration and pass")
    pair_order: int = _asked("int64", "place within the pair, from 0")
    paired: bool = _asked("bool", "the targets of the pair ran back to back on one node")
    pass_index: int = _asked("int64", "replicate, from 0")
    rung: str = _asked("string", "part of the work that was timed; e2e is the whole step")
    attempt: int = _answered("int64", "how often this trial has been run, from 1; the highest is final", default=1)
    recorded_in: str = _answered(
        "string", "study that this row was taken over from; empty where it was measured for this one", default=""
    )

    workload: str = _asked("string", "family, or the user's own FILE.py:factory")
    parameters: Mapping[str, Value | None] = field(default_factory=dict)

    target: str = _asked("string", "named way to run")
    device: str | None = _answered("string", "device that was used: cpu, cuda, mps; what was asked if none was")
    mode: str | None = _answered("string", "how steps were run: eager, compile, cudagraph")
    precision: str | None = _answered("string", "of float32 products, as torch says it: ieee, tf32")
    wait_policy: str | None = _answered("string", "what idle CPU threads do: default, passive, active")
    side_by_side: int | None = _answered(
        "int64", "trainings that ran at once; the times of a row are those of one of them"
    )
    max_memory_bytes: int | None = _answered("int64", "limit of memory that the trial was given", unit="B")
    threads_requested: int | None = _answered("int64", "CPU threads asked for, with all resolved on the node")
    threads_observed: int | None = _answered("int64", "CPU threads that torch had")
    start_method: str | None = _answered("string", "how the trial's process began: fork or spawn")

    status: str = _asked("string", "; ".join(STATUSES))
    error_type: str | None = _answered("string", "class of the error, or the signal")
    error_message: str | None = _answered("string", "what went wrong, with the traceback of an error")
    deadline_s: float | None = _answered("double", "the trial was stopped after this time", unit="s")
    null_reasons: Mapping[str, str] | None = _answered("map<string, string>", "why a column of this row is null")

    step_times_s: list[float] | None = _answered(
        "list<double>", "time per step, one value a block: block wall time / steps_per_block", unit="s"
    )
    steps_per_block: int | None = _answered("int64", "steps timed together")
    warmup_steps: int | None = _answered("int64", "steps before the first timed block, the first step included")
    warmup_s: float | None = _answered("double", "time of the warm-up, the first step included", unit="s")
    process_start_s: float | None = _answered(
        "double", "from asking for a process to the trial's first line in it", unit="s"
    )
    prepare_s: float | None = _answered(
        "double",
        "from that line until the first step could begin: device opened, data and model made and moved",
        unit="s",
    )
    cold_context_s: float | None = _answered(
        "double", "within prepare_s: opening the device, until it has done nothing for the first time", unit="s"
    )
    cold_first_kernel_s: float | None = _answered("double", "after that: its first kernel, waited for", unit="s")
    cold_first_matmul_s: float | None = _answered(
        "double", "after that: the first product of matrices; rung cold only", unit="s"
    )
    cold_first_conv_s: float | None = _answered("double", "after that: the first convolution; rung cold only", unit="s")
    mode_s: float | None = _answered("double", "compiling or recording the step, for the modes that do", unit="s")
    first_step_s: float | None = _answered("double", "time of the first step", unit="s")
    epoch_times_s: list[float] | None = _answered("list<double>", "whole training: time of each epoch", unit="s")
    loss_by_epoch: list[float] | None = _answered("list<double>", "whole training: mean loss of each epoch")
    loss_step_1: float | None = _answered("double", "loss of the first step")
    loss_step_10: float | None = _answered("double", "loss of the tenth step")

    flops_per_step: float | None = _answered("double", "floating point operations a step", unit="FLOP")
    h2d_bytes_per_step: float | None = _answered("double", "bytes copied from host to device a step", unit="B")
    parameter_bytes: float | None = _answered("double", "size of the model's parameters", unit="B")
    ops_per_step: float | None = _answered(
        "double", "operators a step, views and allocations left out: about the kernels that an accelerator launches"
    )
    syncs_per_step: float | None = _answered("double", "times a step that the host reads a value and waits for it")

    kernels_per_step: float | None = _answered("double", "kernels that the accelerator ran a step; rung kernel only")
    kernel_time_s: float | None = _answered(
        "double", "time a step that the accelerator ran kernels, by the profiler; rung kernel only", unit="s"
    )

    memory_at_start_bytes: int | None = _answered("int64", "resident memory when the trial began", unit="B")
    peak_memory_bytes: int | None = _answered("int64", "highest resident memory of the trial", unit="B")
    device_peak_memory_bytes: int | None = _answered(
        "int64", "most memory of the accelerator that tensors took at one time", unit="B"
    )
    energy_j: float | None = _answered("double", "energy that the device took in the timed part", unit="J")
    cpu_time_s: float | None = _answered("double", "CPU time of the process, user and system", unit="s")
    involuntary_switches: int | None = _answered("int64", "times the process was taken off its CPU")

    interference: str | None = _answered(
        "string", "was the trial alone on its cores: clean, suspect, contended, unknown; of its timed part"
    )
    run_delay_share: float | None = _answered(
        "double", "time that threads were ready and had no core / (wall time x threads), of the timed part"
    )
    throttled_s: float | None = _answered("double", "time that CPU quotas held tasks back in the timed part", unit="s")
    steal_share: float | None = _answered("double", "share of all cores that the hypervisor gave to others meanwhile")

    host: str | None = _answered("string", "name of the machine")
    node_id: str | None = _answered("string", "Ray's identity of the node")
    cpu_model: str | None = _answered("string", "name of the CPU")
    cores_logical: int | None = _answered("int64", "logical CPUs of the machine")
    cores_physical: int | None = _answered("int64", "physical cores of the machine")
    cores_usable: int | None = _answered("int64", "what `threads: all` means on this node")
    memory_bytes: int | None = _answered("int64", "memory of the machine", unit="B")
    gpu_name: str | None = _answered("string", "name of the accelerator that was used")
    gpu_memory_bytes: int | None = _answered("int64", "memory of the accelerator that was used", unit="B")
    gpu_uuid: str | None = _answered("string", "identity of the accelerator")
    driver: str | None = _answered("string", "version of the accelerator's driver")
    gpu_clock_before_mhz: int | None = _answered("int64", "clock of its processors before the timed part", unit="MHz")
    gpu_clock_after_mhz: int | None = _answered("int64", "clock of its processors after the timed part", unit="MHz")
    gpu_temperature_before_c: int | None = _answered("int64", "its temperature before the timed part", unit="degC")
    gpu_temperature_after_c: int | None = _answered("int64", "its temperature after the timed part", unit="degC")
    gpu_throttle_before: str | None = _answered("string", "why its clocks were held down before; empty if not")
    gpu_throttle_after: str | None = _answered("string", "why its clocks were held down after; empty if not")
    foreign_gpu_processes: int | None = _answered("int64", "processes of others that computed on it")
    torch: str | None = _answered("string", "version of torch")
    cuda: str | None = _answered("string", "CUDA or ROCm version of the torch build")
    python: str | None = _answered("string", "version of Python")
    ray: str | None = _answered("string", "version of Ray; null without Ray")
    os: str | None = _answered("string", "operating system")
    code_version: str | None = _answered("string", "hash of the code that measured, the workload's file included")

    started_at: datetime | None = _answered("timestamp[us, UTC]", "when the trial began, by its own node's clock")
    finished_at: datetime | None = _answered("timestamp[us, UTC]", "when the trial ended")

    def row(self) -> dict[str, Any]:
        """Return the flat row: every column by name, parameters in their place."""
        flat: dict[str, Any] = {}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if each.name == "parameters":
                flat |= {name: _stored(v) for name, v in value.items()}
            else:
                flat[each.name] = value
        return flat


def first_line(message: object) -> str:
    """Return the line of an error message that says most: the first, or the first after a traceback; cut if long."""
    lines = [line for line in str(message or "").splitlines() if line.strip()]
    frames = [index for index, line in enumerate(lines) if line.startswith('  File "')]
    after = [line for line in lines[frames[-1] :] if not line.startswith(" ")] if frames else lines
    text = printable((after or lines or [""])[0].strip())
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1].rstrip() + "…"


#: Names that a parameter cannot have.
COLUMNS = frozenset(each.name for each in dataclasses.fields(Record))


def schema(parameters: Iterable[Mapping[str, Value | None]]) -> pa.Schema:
    """Return the Arrow schema of rows with these parameters; units and meanings stand in the field metadata.

    Args:
        parameters: The parameters of each row. A column is int64, or double once a value is a float, or
            string once a value is text or a truth value; where no row has a value, what the families say.
    """
    import pyarrow as pa

    arrow: dict[str, pa.DataType] = {
        "int64": pa.int64(),
        "double": pa.float64(),
        "string": pa.string(),
        "bool": pa.bool_(),
        "list<double>": pa.list_(pa.float64()),
        "map<string, string>": pa.map_(pa.string(), pa.string()),
        "timestamp[us, UTC]": pa.timestamp("us", tz="UTC"),
    }
    own: dict[str, str] = {}
    for row in parameters:
        for name, value in row.items():
            own[name] = max(own.get(name, ""), _arrow_of(name, value), key=("", "int64", "double", "string").index)
    fields = []
    for each in dataclasses.fields(Record):
        if each.name == "parameters":
            fields += [pa.field(n, arrow[t], metadata={"meaning": "parameter of the workload"}) for n, t in own.items()]
            continue
        about = {key: each.metadata[key] for key in ("unit", "meaning") if each.metadata[key]}
        fields.append(pa.field(each.name, arrow[each.metadata["arrow"]], metadata=about))
    return pa.schema(fields, metadata={"schema_version": str(SCHEMA_VERSION)})


def table(records: list[Record], alike: Iterable[Mapping[str, Value | None]] = ()) -> pa.Table:
    """Return records as an Arrow table, one row each.

    Args:
        records: The rows.
        alike: Parameters of other rows of the study, so that all its tables have columns of the same types.
    """
    import pyarrow as pa

    rows = [record.row() for record in records]
    described = schema([*alike, *(record.parameters for record in records)])
    for each in described:
        if each.type == pa.string():  # a column can be text in one row and a number in another
            for row in rows:
                value = row.get(each.name)
                row[each.name] = value if value is None else str(value)
    for row in rows:
        if row["null_reasons"] is not None:
            row["null_reasons"] = list(row["null_reasons"].items())
    return pa.Table.from_pylist(rows, schema=described)


def _stored(value: Value | None) -> int | float | str | None:
    return str(value).lower() if isinstance(value, bool) else value


def _arrow_of(name: str, value: Value | None) -> str:
    if value is None:  # as it would be elsewhere
        return KNOWN[name].arrow
    stored = _stored(value)
    return "int64" if isinstance(stored, int) else "double" if isinstance(stored, float) else "string"
