"""What fits into memory, in words and as a table: of a search for it, and of any sweep that ran into a limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.conclusion import label_of, slug_of
from analysis.largest import FAILS, Fit, fits_of, in_the_way, is_near, predicted
from analysis.load import Study
from analysis.rounding import NOTHING, listed, shown
from analysis.sentence import Topic
from sweeps.axis import values_of

#: With more answers than this the report lists them by target; each is in the table.
MOST_SENTENCES = 8
HOW_LARGE = (
    "Memory is that of the accelerator, or of a CPU's process beyond what it began with, at its highest; code of "
    "libraries that a CPU has read meanwhile is in it, and not in the limit. Only trials that ran out of memory count "
    "as not fitting."
)
#: Groups whose answers are told in one sentence; further ones are in the table.
NAMED = 6
SAYS_NOTHING = "which says nothing about memory"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A chart of what fits over another axis.

    Attributes:
        fits: What it shows.
        axes: The axis whose largest size is looked for, and the other one.
        topic: What was asked.
        title: Its sentence.
        label: What sets it apart, if there are several.
        slug: The same as a part of a file name.
    """

    fits: tuple[Fit, ...]
    axes: tuple[str, str]
    topic: Topic
    title: str
    label: str
    slug: str


def found_in(study: Study) -> list[Fit]:
    """Return what fits, for each target and group of a study.

    Of a grid, those targets alone that ran out of memory somewhere: for the others nobody asked.
    """
    names = [target.name for target in study.sweep.targets]
    if study.sweep.strategy != "largest":
        failed = set(study.frame.loc[study.frame["status"] == FAILS, "target"])
        names = [name for name in names if name in failed]
    return fits_of(study.frame, axis=study.sweep.axis, targets=names, group_by=study.group_by)


def headlines(fits: Sequence[Fit], study: Study) -> tuple[str, ...]:
    """Return the answer in short: a sentence for each target."""
    axis, most = study.sweep.axis, largest_asked(study)
    said = []
    for name in dict.fromkeys(fit.target for fit in fits):
        own = [fit for fit in fits if fit.target == name]
        if len(own) == 1:
            said.append(sentence(own[0], axis=axis, most=most))
            continue
        sizes = [f"{_amount(fit)} ({label_of(fit.key)})" for fit in own]
        said.append(f"On {name}{_limit_of(own)} the largest {axis} that fits is {listed(sizes, NAMED)}.")
    return tuple(said)


def sentence(fit: Fit, *, axis: str, most: float) -> str:
    """Return what fits one target in one group as a sentence.

    Args:
        fit: What is known.
        axis: Name of the axis.
        most: The largest size that was to be asked.
    """
    label = label_of(fit.key)
    text = f"With {label}, on " if label else "On "
    text += f"{fit.target}{_limit_of([fit])} "
    low, high = fit.fits, fit.fails
    if low is None and high is None:
        text += (
            f"nothing is known of what fits: {axis} {in_the_way(fit)}." if fit.in_the_way else "nothing is known yet."
        )
    elif low is None:
        more = f"; {in_the_way(fit)}, {SAYS_NOTHING}" if fit.in_the_way else ""
        text += f"not even {axis} {shown(high)} fits{more}."
    elif high is not None:
        more = f"; between them {in_the_way(fit)}, {SAYS_NOTHING}" if fit.in_the_way else ""
        text += f"{axis} {shown(low)} fits and {shown(high)} does not{more}."
    elif fit.in_the_way:
        text += f"{axis} {shown(low)} fits at least: {in_the_way(fit)}, {SAYS_NOTHING}."
    elif low >= most:
        text += f"at least {axis} {shown(low)} fits, the largest asked."
    else:
        text += f"{axis} {shown(low)} fits, and larger ones have not been tried yet."
    if (size := predicted(fit)) is not None:
        text += f" By the growth of its memory, about {shown(float(f'{size:.2g}'))} would fit."
    if fit.above:
        text += f" Yet {listed(map(shown, fit.above), NAMED)} fitted: memory does not simply grow with {axis} here."
    return text


def told(fits: Sequence[Fit], study: Study) -> tuple[str, ...]:
    """Return the answer: a sentence for each target and group, or if these are many the `headlines`."""
    if len(fits) > MOST_SENTENCES:
        return headlines(fits, study)
    return tuple(sentence(fit, axis=study.sweep.axis, most=largest_asked(study)) for fit in fits)


def charts(fits: Sequence[Fit], study: Study, over: Iterable[str]) -> tuple[Limits, ...]:
    """Return the charts over some axes of sizes: one for each combination of whatever else tells groups apart.

    Args:
        fits: What is known.
        study: Its study.
        over: Names of the axes.
    """
    axis, topic = study.sweep.axis, topic_of(study)
    drawn: list[Limits] = []
    taken: set[str] = set()
    for other in over:
        groups: dict[str, list[Fit]] = {}
        for fit in fits:
            groups.setdefault(label_of({k: v for k, v in fit.key.items() if k != other}), []).append(fit)
        for label, own in groups.items():
            title = " ".join(headlines(own, study))
            slug = slug_of(f"{other} {label}", taken)
            drawn.append(Limits(fits=tuple(own), axes=(axis, other), topic=topic, title=title, label=label, slug=slug))
    return tuple(drawn)


def header(study: Study) -> tuple[str, ...]:
    """Return the names of the columns of `row`."""
    return (*study.group_by, "target", "largest that fits", "smallest that does not", "memory at the largest", "limit")


def row(fit: Fit, study: Study) -> tuple[str, ...]:
    """Return what fits one target in one group as a line of a table."""
    high = NOTHING if fit.fails is None else shown(fit.fails)
    if fit.in_the_way:
        high += f" ({in_the_way(fit)})"
    return (
        *(NOTHING if fit.key[name] != fit.key[name] else shown(fit.key[name]) for name in study.group_by),
        fit.target,
        NOTHING if fit.fits is None else shown(fit.fits),
        high,
        NOTHING if fit.peak_bytes is None else memory(fit.peak_bytes),
        NOTHING if fit.limit_bytes is None else memory(fit.limit_bytes),
    )


def topic_of(study: Study) -> Topic:
    """Return what was asked, where nothing is compared."""
    asked = study.sweep
    return Topic(axis=asked.axis, baseline=asked.baseline, challenger=asked.challenger, workload=asked.workload)


def largest_asked(study: Study) -> float:
    """Return the largest size that a study was to ask."""
    return max(float(size) for size in values_of(study.sweep.axes[study.sweep.axis]))


def memory(size_bytes: float) -> str:
    """Return bytes as people read them: "1.5 GiB"."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


def _amount(fit: Fit) -> str:
    """Return what fits as a number."""
    if fit.fits is None:
        return "not known" if fit.fails is None else f"below {shown(fit.fails)}"
    if fit.fails is None or fit.in_the_way:
        return f"at least {shown(fit.fits)}"
    is_whole = float(fit.fits).is_integer() and float(fit.fails).is_integer()
    if is_near(fit.fits, fit.fails) or (is_whole and fit.fails - fit.fits <= 1):
        return shown(fit.fits)
    return f"{shown(fit.fits)}, and below {shown(fit.fails)}"


def _limit_of(fits: Iterable[Fit]) -> str:
    limits = {memory(fit.limit_bytes) for fit in fits if fit.limit_bytes is not None}
    return f" ({limits.pop()})" if len(limits) == 1 else ""
