"""A target: a named way to run a training step."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

DEVICES = ("cpu", "gpu", "cuda", "mps")
SHORTHANDS = "cpu, cpu-1, cpu-N, gpu, cuda, mps"


class Target(BaseModel):
    """A named way to run: a device and a number of CPU threads.

    Attributes:
        name: What tables and charts call it.
        device: `cpu`, `cuda`, `mps`, or `gpu` for whichever accelerator the node has.
        threads: CPU threads of the trial, or `all` for every core that it may really use. An accelerator
            target needs CPU threads too: they feed it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    device: Literal["cpu", "gpu", "cuda", "mps"]
    threads: int | Literal["all"] = "all"

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        """Turn a shorthand such as `cpu-4` into the full form."""
        return expand(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> Target:
        if self.threads != "all" and self.threads < 1:
            raise ValueError(f"threads: {self.threads} is not allowed; a whole number >= 1, or all")
        return self

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
    raise ValueError(
        f"{shorthand!r} is not a target; {SHORTHANDS}, or a mapping such as {{name: half, device: cpu, threads: 8}}"
    )
