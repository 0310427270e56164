"""Before a run: do the nodes go with the driver, which of them serve what is asked, and how long will it take?"""

from __future__ import annotations

import importlib.metadata
import platform
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import psutil

from runner.environment import code_version, usable_cores
from runner.executor import Need, Node
from runner.outlook import in_words
from sweeps.errors import ClusterError
from sweeps.trial import Trial

S_PER_HOUR = 3600.0
#: A trial without a word from the study: the clock runs for two seconds or so, the rest is getting ready.
RULE_OF_THUMB_S = 4.0


def look() -> dict[str, Any]:
    """Return what matters of this machine; on a node it runs in a worker of Ray."""
    parent = psutil.Process().parent()
    try:
        given = parent.environ().get("OMP_NUM_THREADS") if parent else None
    except psutil.Error:  # not ours to read
        given = None
    return {
        "code": code_version(None),
        "ray": _version("ray"),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "cores": usable_cores(),
        "given_threads": given,
    }


def check(said: Mapping[str, Mapping[str, Any] | str], own: Mapping[str, Any]) -> list[str]:
    """Compare what nodes have said with the driver.

    Args:
        said: By name of a node: what `look` found there, or why it said nothing.
        own: What `look` finds where the driver is.

    Returns:
        What is worth a warning.

    Raises:
        ClusterError: A node cannot run trials, or would run others than those that are asked.
    """
    warnings = []
    for name, found in said.items():
        if isinstance(found, str):
            if found.startswith("no answer"):
                warnings.append(f"{name} gave {found}: it is busy or slow; it is used as soon as it can be")
                continue
            raise ClusterError(f"{name} cannot run trials: {found}")
        for what in ("code", "ray", "python"):
            there, here = _to_compare(what, found), _to_compare(what, own)
            if there != here:
                raise ClusterError(
                    f"{name} has another {_WORDS[what]} ({there}) than where this command runs ({here}); {_MEND[what]}"
                )
        if found["torch"] is None:
            raise ClusterError(f"{name} has no PyTorch; {_MEND['ray']}")
        if found["torch"] != own["torch"]:
            warnings.append(f"{name} has PyTorch {found['torch']}, not {own['torch']} as here; rows say which it was")
        if found["given_threads"]:
            warnings.append(
                f"Ray on {name} was started with OMP_NUM_THREADS={found['given_threads']}; trials set their own "
                "threads, but `unset OMP_NUM_THREADS` before `ray start` is safer"
            )
    return warnings


def judge(name: str, found: Mapping[str, Any] | str, own: Mapping[str, Any]) -> tuple[bool, str]:
    """Say of one node, one that has joined while trials run, whether it can run them, and what people should know.

    Args:
        name: Of the node.
        found: What `look` found there, or why it said nothing.
        own: What `look` finds where the driver is.
    """
    try:
        return True, "; ".join(check({name: found}, own))
    except ClusterError as error:
        return False, f"{error}; until then it runs no trials"


_WORDS = {"code": "version of runner/", "ray": "Ray", "python": "Python"}
_MEND = {
    "code": "an installed copy there hides the one that was sent: uninstall it on the nodes",
    "ray": "install constraints.txt on all nodes",
    "python": "use one version of Python on all nodes",
}


def plan(
    todo: Sequence[Sequence[Trial]],
    nodes: Sequence[Node],
    *,
    by_target: bool,
    seconds: Mapping[str, float],
) -> list[str]:
    """Say what a run would do, a line each: trials by target, who serves them, what is missing, its time and cost.

    Args:
        todo: What is open, pair by pair.
        nodes: Those that are up.
        by_target: Whether each trial may run on a node of its own.
        seconds: How long a trial takes, by target: see `runner.outlook.durations`.
    """
    counts = Counter(trial.target.name for pair in todo for trial in pair)
    jobs = [[trial] for pair in todo for trial in pair] if by_target else todo
    able: defaultdict[str, dict[str, Node]] = defaultdict(dict)  # by target: the nodes that its trials can run on
    free_at: dict[str, float] = {node.node_id: 0.0 for node in nodes}
    missing: dict[str, str] = {}
    cost: dict[str, float] = {}
    for job in jobs:
        for part, serving in _placed(job, nodes, by_target=by_target):
            for trial in part:
                able[trial.target.name].update({node.node_id: node for node in serving})
            if not serving:
                need = Need.of((trial.target for trial in part), by_target=by_target)
                missing.update({trial.target.name: f"no node declares {need.told}" for trial in part})
                continue
            first = min(serving, key=lambda node: free_at[node.node_id])
            for trial in part:
                name, price = trial.target.name, trial.target.price_per_hour
                taken_s = seconds.get(name, RULE_OF_THUMB_S)
                free_at[first.node_id] += taken_s
                if price is not None:
                    cost[name] = cost.get(name, 0.0) + price * taken_s / S_PER_HOUR
    lines = []
    for name, count in sorted(counts.items()):
        who = missing.get(name) or ", ".join(_told(node) for node in able[name].values())
        lines.append(f"{name}: {count} trial{'s' if count > 1 else ''}; {who}")
    if can := sum(count for name, count in counts.items() if name not in missing):
        known = sorted(name for name in counts if name in seconds)
        how = f"from the study's own rows of {', '.join(known)}" if known else "no rows yet"
        if len(known) < len(counts):
            how += f"; {RULE_OF_THUMB_S:g} s a trial as a rule of thumb" + (" for the others" if known else "")
        lines.append(f"About {in_words(max(free_at.values()))} for {can} trials ({how}).")
    if cost:
        whose = "" if cost.keys() == counts.keys() - missing.keys() else f" of {', '.join(sorted(cost))}"
        told = f"{sum(cost.values()):.2g}"
        lines.append(f"That costs about {told} for the trials{whose}, at their price_per_hour; idle hours come on top.")
    return lines


def _placed(
    job: Sequence[Trial], nodes: Sequence[Node], *, by_target: bool
) -> list[tuple[Sequence[Trial], list[Node]]]:
    """Return the trials of a job with the nodes that serve them: together, or each by itself where none serves all."""
    need = Need.of((trial.target for trial in job), by_target=by_target)
    serving = [node for node in nodes if node.has(need)]
    if need.off_accelerators:
        serving = [node for node in serving if not node.accelerators] or serving
    if serving or len(job) == 1:
        return [(job, serving)]
    return [part for trial in job for part in _placed([trial], nodes, by_target=by_target)]


def _told(node: Node) -> str:
    gpus = f", {node.accelerators} GPU{'s' if node.accelerators > 1 else ''}" if node.accelerators else ""
    return f"{node.host} ({node.cpus} CPUs{gpus}{', busy' if node.is_held else ''})"


def _to_compare(what: str, found: Mapping[str, Any]) -> Any:
    """Versions of Python that differ in the last number go together."""
    return found[what].rpartition(".")[0] if what == "python" else found[what]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
