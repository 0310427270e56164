"""Measure from what size a GPU beats a CPU: choose a sweep, run it, analyse, report. `main` is the map.

This is the one file that `ray submit` sends. The rest of the program is beside it, or, on the head of a cluster, where
the environment variable SWEEP_HOME says.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

_HERE = Path(__file__).resolve().parent
if not (_HERE / "runner").is_dir() and "SWEEP_HOME" in os.environ:
    sys.path.insert(0, str(Path(os.environ["SWEEP_HOME"]).expanduser()))

try:
    import typer
except ImportError:
    sys.exit("sweep.py: this Python lacks what the program needs; `make sweep` makes .venv, then: . .venv/bin/activate")

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    import pyarrow as pa

    from analysis.strategy import Asked, Wish
    from runner.devices.probe import Probe
    from runner.executor import Executor
    from runner.recorded import Recorded
    from runner.search import Decide
    from runner.session import Session
    from sweeps.definition import Sweep
    from sweeps.folder import Folder

# \b keeps the lines of a block as they are.
EPILOG = """
\b
Examples:
  python sweep.py                      the default sweep, on this machine
  python sweep.py --list               the sweeps that ship, and what each answers
  python sweep.py width --set passes=5
  python sweep.py mine.yaml --out results/mine
  python sweep.py batch_size --targets cpu-1,cpu --set axes.batch_size=32,2048
  python sweep.py width --set strategy=adaptive
                                       looks for the widths that tell most
  python sweep.py --against studies/h100/mlp
                                       this CPU against a GPU recorded elsewhere
  ray submit cluster.yaml sweep.py -- batch_size      the same on a cluster

\b
Exit code:
  0    every planned trial has an answer
  3    some trials ended as error, crashed, timeout, invalid or node_lost, or
       were not run (oom, unavailable and skipped_larger are answers)
  2    something that was given cannot be used
  1    a fault of this program
  130  interrupted: what is finished is kept, and the same command runs the rest
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(epilog=EPILOG)
def main(
    sweep: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE.yaml",
            help="A sweep that ships (see --list), or a file. [default: default; with --against, what that has asked]",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="STUDY", help="Folder of the study, or s3://bucket/prefix. [default: results/<name>]"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the sweep: passes=5, axes.width=64,256."),
    ] = None,
    targets: Annotated[str, typer.Option(metavar="A,B", help="Compare these: cpu, cpu-1, cpu-N, gpu, cuda, mps.")] = "",
    show_list: Annotated[bool, typer.Option("--list", help="Show the sweeps that ship, and stop.")] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="STUDY",
            help="Take the accelerator's rows from a study that was recorded elsewhere; run the CPU's trials only.",
        ),
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="ADDR", help="A running Ray, as ray.init takes it; auto finds it.")
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="Without Ray, one trial after another.")] = False,
    retry: Annotated[str, typer.Option(metavar="STATUS,...", help="Ask trials with these final statuses again.")] = "",
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="On a cluster: wait this long for missing nodes. [default: 900 on one of cluster.yaml, else 60]",
        ),
    ] = None,
    max_minutes: Annotated[
        float | None,
        typer.Option(metavar="N", min=0, help="Begin no trial after this time; the same command runs the rest."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what would run, where and how long it takes; measure and write nothing.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Ray's own messages too.")] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write the report at the end.")] = True,
) -> None:
    """Run a sweep of training trials and report from what size the challenger beats the baseline."""
    if show_list:
        _print_catalog()
        return
    from sweeps.errors import CrossoverError, printable

    try:
        code = _run(
            sweep,
            out,
            settings or [],
            targets,
            against=against,
            address=address,
            local=local,
            retry=retry,
            wait_s=wait,
            max_minutes=max_minutes,
            plan_only=plan,
            verbose=verbose,
            report=report,
        )
    except CrossoverError as error:
        print(f"sweep.py: {printable(str(error))}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print(
            "Interrupted. Everything that was reported is kept: the same command runs the rest, and "
            "`python -m analysis STUDY` reports on what there is, if there is anything.",
            file=sys.stderr,
        )
        code = 130
    raise typer.Exit(code)


def _print_catalog() -> None:
    from sweeps.sweep_file import catalog, load

    for name in catalog():
        print(f"{name:12} {load(name).question}")


def _run(
    name: str | None,
    out: str | None,
    settings: list[str],
    targets: str,
    *,
    against: str | None,
    address: str | None,
    local: bool,
    retry: str,
    wait_s: float | None,
    max_minutes: float | None,
    plan_only: bool,
    verbose: bool,
    report: bool,
) -> int:
    """Run a sweep and report on it; return the exit code."""
    until = math.inf if max_minutes is None else time.monotonic() + 60 * max_minutes
    from runner import store
    from runner.foresight import say_plan
    from runner.place import choose_place
    from runner.session import Session
    from sweeps.errors import InputError
    from sweeps.own import source_of
    from sweeps.record import FAILED

    if address is not None and (local or not address.strip()):
        raise InputError("--address: give an address, or auto for the running Ray; and not together with --local")
    choice, folder, recorded = _choose(name, out, settings, _names("--targets", targets), against)
    retried = _statuses(retry)
    store.check(folder, choice[True])
    place = choose_place(address, local=local)
    print(place.sentence, flush=True)
    wait_s = place.wait_s if wait_s is None else wait_s

    path = source_of(choice[True].workload)
    source = path.read_text(encoding="utf-8") if path else None
    _end_on_signals()
    with contextlib.ExitStack() as stack:
        executor: Executor | None = None
        if place.kind == "cluster":
            executor = stack.enter_context(
                contextlib.closing(place.open(accelerators=0, source=source, verbose=verbose, tell=_warn))
            )
        asked, accelerator = _resolve(choice, executor, None if plan_only else wait_s, recorded)
        decide = functools.partial(_decide, asked)
        if plan_only:
            say_plan(
                asked,
                asked.pairs() if recorded is None else recorded.pairs,
                folder,
                executor,
                decide,
                retried=retried,
                accelerators=accelerator.count,
                wait_s=wait_s,
            )
            return 0
        kept = stack.enter_context(contextlib.closing(store.Store(folder, asked)))

        def open_executor() -> Executor:
            if executor is not None:
                return executor
            opened = place.open(accelerators=accelerator.count, source=source, verbose=verbose)
            return stack.enter_context(contextlib.closing(opened))

        session = Session(
            asked,
            kept,
            open_executor,
            source=source,
            retried=retried,
            absence=accelerator.cause,
            wait_s=wait_s,
            until=until,
        )
        if recorded is None:
            found, is_whole = _measure(asked, session, folder, decide)
        else:
            found, is_whole = session.go_against(recorded), True
    if report and any(found[status] for status in found if status):
        _report(folder)
    return 3 if not is_whole or any(found[status] for status in {*FAILED, ""}) else 0


def _measure(asked: Sweep, session: Session, folder: Folder, decide: Decide) -> tuple[Counter[str], bool]:
    """Run what is open; return how the trials have ended, and whether nothing more is wanted."""
    from runner.session import LADDER

    if asked.strategy == "grid":
        found, is_whole = session.go_through(asked.name, asked.pairs()), True
    else:
        found, is_whole = session.search(decide)
    if asked.explain:
        from analysis import sizes_to_explain

        found += session.go_through(LADDER, asked.ladder(sizes_to_explain(folder)))
    session.sum_up(found)
    return found, is_whole


def _choose(
    name: str | None, out: str | None, settings: list[str], rivals: list[str], against: str | None
) -> tuple[dict[bool, Sweep], Folder, Recorded | None]:
    """Return what is asked where there is an accelerator and where there is none, the study, and what is recorded."""
    from runner.recorded import find
    from sweeps.folder import Folder
    from sweeps.sweep_file import load

    if against is None:
        named = "default" if name is None else name
        choice = {has: load(named, settings=settings, targets=rivals, accelerator=has) for has in (True, False)}
        return choice, Folder.at(out or f"results/{choice[True].name}"), None
    asked = _asked_there(against, settings, rivals) if name is None else load(name, settings=settings, targets=rivals)
    folder = Folder.at(out or f"results/{asked.name}")
    recorded = find(against, asked, folder)
    return dict.fromkeys((True, False), recorded.asked), folder, recorded


def _asked_there(against: str, settings: list[str], rivals: list[str]) -> Sweep:
    """Return what a recorded study has asked, with what the command line says on top."""
    from sweeps.errors import InputError, StudyError
    from sweeps.folder import Folder
    from sweeps.study import SWEEP, read_sweep
    from sweeps.sweep_file import load_again

    folder = Folder.at(against)
    try:
        read_sweep(folder)
        return load_again(folder.read(SWEEP), f"{folder}/{SWEEP}", settings=settings, targets=rivals)
    except (InputError, StudyError) as error:
        shown = f"--against {error}" if str(error).startswith(str(folder)) else str(error)
        raise type(error)(shown) from None


def _tell_of_recorded(recorded: Recorded) -> None:
    print(recorded.told, flush=True)
    for warning in (*recorded.warnings, recorded.why_missing()):
        if warning:
            _warn(warning)


def _resolve(
    choice: dict[bool, Sweep], executor: Executor | None, wait_s: float | None, recorded: Recorded | None
) -> tuple[Sweep, Probe]:
    """Find out whether there is an accelerator, and with that what is asked; None waits for none."""
    from runner.devices.probe import Probe, probe
    from runner.place import has_accelerator
    from sweeps.own import is_own

    if recorded is not None:  # nobody looks for one
        _tell_of_recorded(recorded)
        return recorded.asked, Probe(kind=None, name=None, count=0, cause="")
    depends = choice[True] != choice[False]
    if executor is not None:
        missing = depends and not has_accelerator(executor, wait_s)
        cause = "no node of the cluster declares a GPU" if missing else ""
        accelerator = Probe(kind=None, name=None, count=0, cause=cause)
    elif depends or any(target.needs_accelerator for target in choice[True].targets):
        accelerator = probe()
    else:
        accelerator = Probe(kind=None, name=None, count=0, cause="")
    asked = choice[not accelerator.cause]
    if accelerator.name:
        print(f"Accelerator: {accelerator.name}.", flush=True)
    elif accelerator.cause:
        print(f"No accelerator: {accelerator.cause}.", flush=True)
        if depends:
            print(f"So this sweep compares {asked.baseline} with {asked.challenger} instead.", flush=True)
        print(
            "To compare with a GPU, run the same command where torch sees one (python -c 'import torch; "
            "print(torch.accelerator.is_available())'), or on a cluster: ray submit cluster.yaml sweep.py."
            + ("" if depends else " To compare CPU cores here: --targets cpu-1,cpu."),
            flush=True,
        )
    if executor is None and not is_own(asked.workload):  # a user's code may treat targets by name
        _refuse_equal(asked)
    return asked, accelerator


def _decide(asked: Sweep, rows: pa.Table, pending: Sequence[Wish], nodes: int) -> Asked:
    """Ask the analysis what to measure next: the one place where deciding and measuring meet."""
    import pandas as pd

    from analysis.strategy import next_wishes

    frame = rows.to_pandas() if rows.num_rows else pd.DataFrame()  # a study without rows has no columns of its own
    return next_wishes(asked, frame, pending=pending, nodes=nodes)


def _warn(text: str) -> None:
    print(f"Warning: {text}", flush=True)


def _refuse_equal(asked: Sweep) -> None:
    """Refuse to compare a target with itself under another name."""
    from runner.environment import usable_cores
    from sweeps.errors import InputError

    cores = usable_cores()
    rivals = [asked.target(name) for name in (asked.baseline, asked.challenger)]
    baseline, challenger = ({**t.described, "threads": cores if t.threads == "all" else t.threads} for t in rivals)
    if baseline == challenger:
        raise InputError(
            f"nothing to compare: {asked.baseline} and {asked.challenger} are the same on this machine, which has "
            f"{cores} usable core{'s' if cores > 1 else ''} and no accelerator in question"
        )


def _report(folder: Folder) -> None:
    """Write the report and end with its verdict."""
    from analysis.report import write

    written = write(folder)
    for warning in written.warnings:
        print(f"Warning: {warning}", flush=True)
    for sentence in written.sentences:
        print(sentence, flush=True)
    print(f"Report: {folder}/report.html", flush=True)


def _statuses(text: str) -> frozenset[str]:
    from sweeps.errors import InputError, did_you_mean
    from sweeps.record import STATUSES

    asked = _names("--retry", text)
    for each in asked:
        if each not in STATUSES:
            raise InputError(f"--retry {each}: no such status; {', '.join(STATUSES)}.{did_you_mean(each, STATUSES)}")
    return frozenset(asked)


def _names(flag: str, text: str) -> list[str]:
    """Split the value of a flag at its commas."""
    from sweeps.errors import InputError

    names = [each.strip() for each in text.split(",")] if text else []
    if not all(names):
        raise InputError(f"{flag} {text}: expected names with commas between them, such as {flag} a,b")
    return names


def _end_on_signals() -> None:
    """Make a hang-up or a polite kill end the run as Ctrl-C does: in good order."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
            signal.signal(number, end)


if __name__ == "__main__":
    app()
