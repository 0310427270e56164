"""A configuration: a workload with every parameter fixed, checked and completed."""

from __future__ import annotations

from collections.abc import Mapping

from sweeps.errors import InputError, did_you_mean, show
from sweeps.families import FAMILIES
from sweeps.levers import SCALARS, optimizer_arguments
from sweeps.own import complete_own, is_own
from sweeps.parameter import Parameter, Value, key_of

#: Every parameter by name; None is one that means nothing here.
Configuration = dict[str, Value | None]


def complete(workload: str, given: Mapping[str, Value], axes: tuple[str, ...]) -> Configuration:
    """Check the parameters of one configuration and fill in the defaults.

    Args:
        workload: A family, or a resolved `FILE.py:factory` or `package.module:factory`.
        given: Every parameter that the sweep fixes, axis values included.
        axes: Which of them are axes: the message says so.

    Raises:
        InputError: An unknown workload or parameter, or a value that is not legal.
    """
    if is_own(workload):
        return complete_own(workload, given, axes)
    if workload not in FAMILIES:
        raise InputError(
            f"workload: {show(workload)} is not known; {', '.join(FAMILIES)}, or FILE.py:factory."
            + did_you_mean(workload, FAMILIES)
        )
    family = FAMILIES[workload]
    optimizer = given.get("optimizer", family.usual.get("optimizer"))
    known = {**family.parameters, **optimizer_arguments(optimizer)}
    values: Configuration = {name: p.default for name, p in family.parameters.items()}
    for name, value in given.items():
        values[name] = _read(name, value, workload, known, given, axes)
    _follow(values, known, given, axes)
    if values.get("loader") == "resident" and "transfer" not in given:
        values["transfer"] = "resident"
    for rule in family.rules:
        if not rule.holds(values):
            raise InputError(f"{key_of(rule.parameter, axes)}: {rule.otherwise.format_map(values)}")
    for name, parameter in known.items():
        if parameter.only_with and values[parameter.only_with[0]] != parameter.only_with[1]:
            if name in given:
                needs, value = parameter.only_with
                where = key_of(name, axes)
                raise InputError(f"{where}: means something with {needs}: {value} only; add that, or leave it out")
            values[name] = None
    return values


def on_device(workload: str, configuration: Mapping[str, Value | None], *, accelerator: bool) -> Configuration:
    """Return a configuration as a trial asks it: what means nothing on a CPU is null there.

    One trial on the CPU is thus the partner of every value of such a lever.
    """
    idle = set() if accelerator else accelerator_levers(workload)
    return {name: None if name in idle else value for name, value in configuration.items()}


def accelerator_levers(workload: str) -> set[str]:
    """Return the parameters of a workload that mean nothing on a CPU."""
    known: Mapping[str, Parameter] = FAMILIES[workload].parameters if workload in FAMILIES else {}
    return {name for name, parameter in known.items() if parameter.accelerator_only}


def _read(
    name: str,
    value: Value,
    workload: str,
    known: Mapping[str, Parameter],
    given: Mapping[str, Value],
    axes: tuple[str, ...],
) -> Value:
    """Return a given value as rows hold it.

    Raises:
        InputError: The workload has no such parameter, or it cannot have that value.
    """
    where = key_of(name, axes)
    if name not in known and name in SCALARS and "optimizer" in known:
        optimizer = given.get("optimizer", known["optimizer"].default)
        takes = ", ".join(optimizer_arguments(optimizer)) or "none"
        raise InputError(f"{where}: {optimizer} has no such argument; {takes}.")
    if name not in known:
        raise InputError(f"{where}: {workload} has no such parameter; {', '.join(known)}." + did_you_mean(name, known))
    read = known[name].read(value)
    if read is None:
        raise InputError(
            f"{where}: {show(value)} is not allowed; {name} of {workload} is {known[name].legal}"
            + (f" (write {value:.0f})" if isinstance(value, float) and value.is_integer() else "")
        )
    return read


def _follow(
    values: Configuration, known: Mapping[str, Parameter], given: Mapping[str, Value], axes: tuple[str, ...]
) -> None:
    """Give parameters that are like another one its value.

    Raises:
        InputError: The other one is given although all of them are.
    """
    for leader in {parameter.like for parameter in known.values() if parameter.like}:
        followers = [name for name, parameter in known.items() if parameter.like == leader]
        if leader in given and all(name in given for name in followers):
            raise InputError(
                f"{key_of(leader, axes)}: means nothing where {', '.join(followers)} are given; leave it out"
            )
        values.update({name: values[leader] for name in followers if name not in given})
