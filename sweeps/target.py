"""A target: a named way to run a training step."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sweeps.errors import did_you_mean, show

#: What names may be: they become folders, labels and words of a command line.
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
NAME_IN_WORDS = "letters, digits and any of _ . - (at most 64, a letter or digit first)"
SHORTHANDS: dict[str, dict[str, Any]] = {
    "cpu": {"device": "cpu"},
    "cpu-passive": {"device": "cpu", "wait_policy": "passive"},
    "cpu-compile": {"device": "cpu", "mode": "compile"},
    "gpu": {"device": "gpu"},
    "gpu-graph": {"device": "gpu", "mode": "cudagraph"},
    "gpu-compile": {"device": "gpu", "mode": "compile"},
    "gpu-tf32": {"device": "gpu", "precision": "tf32"},
    "cuda": {"device": "cuda"},
    "mps": {"device": "mps"},
}
LEGAL = f"one of {', '.join(SHORTHANDS)}, cpu-1, cpu-N, or a mapping such as {{name: half, device: cpu, threads: 8}}"
MOST_THREADS = 9999
#: What the value of a label can be, as Ray takes it.
LABEL = r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
#: A label may have a prefix, as in `ray.io/market-type`.
LABEL_NAME = re.compile(r"([A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


#: Units of memory, in bytes.
UNITS = {
    "B": 1,
    **{f"{k}B": 1000**n for n, k in enumerate("kMGT", 1)},
    **{f"{k}iB": 1024**n for n, k in enumerate("KMGT", 1)},
}


def _bytes(value: Any) -> Any:
    """Return a size of memory in bytes; what is none stays for pydantic to refuse."""
    if isinstance(value, str) and (found := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGT]i?B|B)", value.strip())):
        unit = "kB" if found[2] == "KB" else found[2]
        value = round(float(found[1]) * UNITS[unit]) if unit in UNITS else value
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 2**20 <= value <= 2**50):
        return value
    raise ValueError(f"{show(value)} is not allowed; from 1 MiB on, such as 2 GiB or 500 MB")


class Target(BaseModel):
    """A named way to run: a device, a number of CPU threads, and how both are used.

    Attributes:
        name: What tables and charts call it.
        device: `cpu`, `cuda`, `mps`, or `gpu` for whichever accelerator the node has.
        threads: CPU threads of the trial, or `all` for every core that it may really use. An accelerator
            target needs CPU threads too: they feed it.
        mode: `eager`, `compile` (torch.compile), or `cudagraph` (the step captured once and replayed).
        precision: `ieee`, or `tf32`, with which CUDA multiplies matrices in fewer bits.
        wait_policy: What idle CPU threads do (OMP_WAIT_POLICY): `passive` sleeps, `active` spins, `default` spins for a
            while.
        where: Labels that a node must have; `accelerator_type` is Ray's name of the accelerator, such as `A10G`. Empty
            for any node that has the device.
        wait: False times without waiting for the device, as wrong benchmarks do. Such a target shows what they see and
            can be neither baseline nor challenger.
        side_by_side: So many trainings at once, each a process of its own with `threads` threads, as when many small
            configurations are tried; `all` is as many as there are cores for. CPU only.
        max_memory: Bytes that a trial may take of the device's memory, of a CPU's beyond what its process begins with;
            None for what there is. A file may say `2 GiB`.
        price_per_hour: What an hour of the machine costs, in any currency, the same one for all targets; None where
            nobody knows. It changes no trial, so it may be added or corrected when all is measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME, description=NAME_IN_WORDS)
    device: Literal["cpu", "gpu", "cuda", "mps"] = Field(description="one of cpu, gpu, cuda, mps")
    threads: Annotated[int, Field(strict=True, ge=1, le=MOST_THREADS)] | Literal["all"] = Field(
        default="all", description=f"a whole number from 1 to {MOST_THREADS}, or all"
    )
    mode: Literal["eager", "compile", "cudagraph"] = Field(default="eager", description="eager, compile or cudagraph")
    precision: Literal["ieee", "tf32"] = Field(default="ieee", description="ieee or tf32")
    wait_policy: Literal["default", "passive", "active"] = Field(
        default="default", description="default, passive or active"
    )
    where: dict[str, Annotated[str, Field(strict=True, pattern=LABEL)]] = Field(
        default={}, description="a mapping of node labels to texts, such as {pool: big, accelerator_type: A10G}"
    )
    wait: bool = Field(default=True, strict=True, description="true or false")
    side_by_side: Annotated[int, Field(strict=True, ge=1, le=MOST_THREADS)] | Literal["all"] = Field(
        default=1, description=f"a whole number from 1 to {MOST_THREADS}, or all"
    )
    max_memory: Annotated[int | None, BeforeValidator(_bytes)] = Field(
        default=None, description="bytes, or a text such as 2 GiB or 500 MB; null where there is no other limit"
    )
    price_per_hour: float | None = Field(
        default=None,
        strict=True,
        gt=0,
        allow_inf_nan=False,
        description="a number above 0, or null where it is unknown",
    )

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        """Turn a shorthand such as `cpu-4` into the full form."""
        return expand(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.device in ("cpu", "mps"):
            for key, value in (("mode", "cudagraph"), ("precision", "tf32")):
                if getattr(self, key) == value:
                    raise ValueError(f"{key}: {value} is something that {self.device} does not have; only CUDA does")
        if self.device != "cpu" and self.side_by_side != 1:
            raise ValueError(
                f"side_by_side: {self.side_by_side} is for CPUs only: an accelerator runs one training at a time"
            )
        for label in self.where:
            if not LABEL_NAME.fullmatch(label):
                raise ValueError(f"where: {show(label)} cannot be a label of a node; letters, digits and any of _ . -")
        return self

    @property
    def described(self) -> dict[str, Any]:
        """What it means, without its name, what goes without saying, and its price: that changes no trial."""
        apart = {"name", "device", "price_per_hour"}
        return {"device": self.device, **self.model_dump(exclude_defaults=True, exclude=apart)}

    def priced_as(self, other: Target) -> Target:
        """Return it with the price of another one, if it has none itself."""
        if self.price_per_hour is not None:
            return self
        return self.model_copy(update={"price_per_hour": other.price_per_hour})

    @property
    def needs_accelerator(self) -> bool:
        """Whether a trial of this target has to run where an accelerator is."""
        return self.device != "cpu"


def expand(shorthand: str) -> dict[str, Any]:
    """Turn a shorthand into the fields of a target.

    Raises:
        ValueError: The text is none of the shorthands.
    """
    if shorthand in SHORTHANDS:
        return {"name": shorthand, **SHORTHANDS[shorthand]}
    if found := re.fullmatch(r"cpu-([1-9][0-9]{0,3})", shorthand):
        return {"name": shorthand, "device": "cpu", "threads": int(found[1])}
    raise ValueError(f"{show(shorthand)} is not a target; {LEGAL}.{did_you_mean(shorthand, SHORTHANDS)}")
