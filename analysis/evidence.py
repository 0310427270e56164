"""All that is known of each group, cut out of the arrays that hold every group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from analysis.bands import find_crossings
from analysis.censoring import describe_known_signs
from analysis.outcomes import describe_outcomes
from analysis.question import Ints, Question
from analysis.ratios import Ratios
from analysis.trials import Points, Trials
from analysis.verdict import Segment, Stop


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of one group; one value a size, in ascending order, unless said.

    Attributes:
        sizes: All sizes of the group, also those that were not compared.
        whole: Whether the axis holds whole numbers only; one value.
        pairs, unmatched: Pairs used, and usable trials without a partner (both sides together).
        informed: Whether the size was compared.
        known: Why the faster target is known without a ratio, else empty.
        outcomes: How the trials of the baseline and of the challenger ended.
        finished, timeouts, ooms, too_quick: Trials with that outcome, baseline and challenger.
        contended_out, contended_in, merged, retried: Counts, summed over the sizes.
        unsized: Rows without a size.
        unpaired, assumed, drift: How the band was made; one value each.
        stops: The sizes that were compared.
    """

    sizes: list[float]
    whole: bool
    pairs: list[int]
    unmatched: int
    informed: list[bool]
    known: list[str]
    outcomes: list[list[str]]
    finished: list[list[int]]
    timeouts: list[list[int]]
    ooms: list[list[int]]
    too_quick: list[list[int]]
    contended_out: int
    contended_in: int
    merged: int
    retried: int
    unsized: int
    unpaired: bool
    assumed: bool
    drift: float
    stops: list[Stop]


def gather(points: Points, trials: Trials, ratios: Ratios, question: Question) -> Iterator[Evidence]:
    """Cut the arrays of all groups into the evidence of each.

    Args:
        points: The sizes of all groups.
        trials: The trials that count.
        ratios: What is known at each point.
        question: What is asked.

    Yields:
        The evidence of one group, in the order of `points.keys`.
    """
    n_groups = len(points.unpaired)
    sizes, pairs, informed = points.size.tolist(), ratios.pairs.tolist(), ratios.informed.tolist()
    known = describe_known_signs(ratios.known, ratios.outcomes, question)
    ended = describe_outcomes(trials, len(sizes))
    finished, timeouts = ratios.outcomes.finished.tolist(), ratios.outcomes.timeout.tolist()
    ooms, too_quick = ratios.outcomes.oom.tolist(), ratios.outcomes.too_quick.tolist()
    stops = _stops(points, ratios, question)

    def total(group: Ints, counts: Ints) -> list[int]:
        return [int(number) for number in np.bincount(group, weights=counts, minlength=n_groups)]

    unmatched, unsized = total(points.group, ratios.unmatched), points.unsized.tolist()
    contended_out = total(points.group, ratios.contended_out)
    contended_in = total(points.group, ratios.contended_in)
    trial_group = points.group[trials.point]
    merged, retried = total(trial_group, trials.merged.astype(np.int64)), total(trial_group, trials.retried)
    bounds = np.searchsorted(points.group, np.arange(n_groups + 1)).tolist()
    for group, (start, end) in enumerate(pairwise(bounds)):
        yield Evidence(
            sizes=sizes[start:end],
            whole=points.whole,
            pairs=pairs[start:end],
            informed=informed[start:end],
            known=known[start:end],
            outcomes=ended[start:end],
            finished=finished[start:end],
            timeouts=timeouts[start:end],
            ooms=ooms[start:end],
            too_quick=too_quick[start:end],
            unmatched=unmatched[group],
            contended_out=contended_out[group],
            contended_in=contended_in[group],
            merged=merged[group],
            retried=retried[group],
            unsized=unsized[group],
            unpaired=bool(points.unpaired[group]),
            assumed=bool(ratios.assumed[group]),
            drift=float(ratios.drift[group]),
            stops=[stop for stop in stops[start:end] if stop is not None],
        )


def _stops(points: Points, ratios: Ratios, question: Question) -> list[Stop | None]:
    """A stop for every point at which something is known, None for the others."""
    position = question.position(points.size)
    value = ratios.ratio + question.shift
    nodes = np.flatnonzero(ratios.pairs > 0)
    crossings = find_crossings(points.group[nodes], position[nodes], value[nodes], ratios.half[nodes])
    segments: dict[int, Segment] = {
        node: Segment(
            lower_first=lower_first,
            lower_last=lower_last,
            upper_first=upper_first,
            upper_last=upper_last,
            zero=zero,
            jump=jump,
            sparse=sparse,
        )
        for node, real, lower_first, lower_last, upper_first, upper_last, zero, jump, sparse in zip(
            nodes[:-1].tolist(),
            (points.group[nodes[:-1]] == points.group[nodes[1:]]).tolist(),
            crossings.lower_first.tolist(),
            crossings.lower_last.tolist(),
            crossings.upper_first.tolist(),
            crossings.upper_last.tolist(),
            crossings.zero.tolist(),
            crossings.jump.tolist(),
            crossings.sparse.tolist(),
            strict=True,
        )
        if real
    }
    return [
        Stop(
            size=size,
            position=place,
            state=state,
            strong=strong,
            value=ratio,
            half=half,
            segment=segments.get(index),
        )
        if informed
        else None
        for index, (size, place, state, strong, ratio, half, informed) in enumerate(
            zip(
                points.size.tolist(),
                position.tolist(),
                ratios.state.tolist(),
                ratios.strong.tolist(),
                value.tolist(),
                ratios.half.tolist(),
                ratios.informed.tolist(),
                strict=True,
            )
        )
    ]
