"""A target: a named way to run a training step."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sweeps.errors import did_you_mean, show

DEVICES = ("cpu", "gpu", "cuda", "mps")
#: What names may be: they become folders, labels and words of a command line.
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
NAME_IN_WORDS = "letters, digits and any of _ . - (at most 64, a letter or digit first)"
LEGAL = "one of cpu, cpu-1, cpu-N, gpu, cuda, mps, or a mapping such as {name: half, device: cpu, threads: 8}"
MOST_THREADS = 9999


class Target(BaseModel):
    """A named way to run: a device and a number of CPU threads.

    Attributes:
        name: What tables and charts call it.
        device: `cpu`, `cuda`, `mps`, or `gpu` for whichever accelerator the node has.
        threads: CPU threads of the trial, or `all` for every core that it may really use. An accelerator
            target needs CPU threads too: they feed it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME, description=NAME_IN_WORDS)
    device: Literal["cpu", "gpu", "cuda", "mps"] = Field(description="one of cpu, gpu, cuda, mps")
    threads: Annotated[int, Field(strict=True, ge=1, le=MOST_THREADS)] | Literal["all"] = Field(
        default="all", description=f"a whole number from 1 to {MOST_THREADS}, or all"
    )

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        """Turn a shorthand such as `cpu-4` into the full form."""
        return expand(value) if isinstance(value, str) else value

    @property
    def needs_accelerator(self) -> bool:
        """Whether a trial of this target has to run where an accelerator is."""
        return self.device != "cpu"


def expand(shorthand: str) -> dict[str, Any]:
    """Turn a shorthand into the fields of a target.

    Raises:
        ValueError: The text is none of the shorthands.
    """
    if shorthand in DEVICES:
        return {"name": shorthand, "device": shorthand, "threads": "all"}
    if found := re.fullmatch(r"cpu-([1-9][0-9]{0,3})", shorthand):
        return {"name": shorthand, "device": "cpu", "threads": int(found[1])}
    raise ValueError(f"{show(shorthand)} is not a target; {LEGAL}.{did_you_mean(shorthand, DEVICES)}")
