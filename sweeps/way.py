"""How a trial is run, as far as whoever runs it has to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol


class Way(Protocol):
    """How a trial is run: a `sweeps.target.Target`, or what says the same without its packages."""

    @property
    def name(self) -> str:
        """What tables and charts call it."""

    @property
    def device(self) -> str:
        """cpu, cuda, mps, or gpu for whichever accelerator there is."""

    @property
    def threads(self) -> int | Literal["all"]:
        """CPU threads of the trial, or all."""

    @property
    def mode(self) -> str:
        """How steps are run."""

    @property
    def where(self) -> Mapping[str, str]:
        """Labels that a node must have."""

    @property
    def wait(self) -> bool:
        """Whether the device is waited for."""

    @property
    def price_per_hour(self) -> float | None:
        """What an hour of the machine costs; None where nobody knows."""

    @property
    def described(self) -> dict[str, Any]:
        """What it means, without its name, what goes without saying, and its price."""

    @property
    def needs_accelerator(self) -> bool:
        """Whether a trial has to run where an accelerator is."""

    def model_dump(self) -> dict[str, Any]:
        """Return every key with its value."""
