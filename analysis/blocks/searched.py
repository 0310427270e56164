"""Where a search has measured, and what a grid would have cost."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.blocks.block import Block
from analysis.load import Study
from analysis.rounding import lasting, number
from analysis.spent import cost_words, spent, spent_on_map
from analysis.strategy import NOT_FINISHED, answers, grid_of, map_axis, searches

WHERE = "Where the measurements went"


def blocks(study: Study) -> Iterator[Block]:
    """Say where an adaptive sweep has measured, why it stopped, and what a grid would have cost."""
    sweep = study.sweep
    if sweep.strategy != "adaptive":
        return
    found = [one for one in searches(sweep, answers(study.frame)) if len(one.rows)]
    is_map = bool(map_axis(sweep))
    costs = [spent_on_map(one.rows, grid_of(sweep)) if is_map else spent(one.rows, one.question) for one in found]
    told = [one.ask() for one in found]
    words = cost_words(costs, "every cell" if is_map else "every octave", ended=all(one.stop for one in told))
    if len(found) == 1:
        (one,) = told
        end = f"The search has stopped: {one.stop}." if one.stop else f"{NOT_FINISHED[:1].upper()}{NOT_FINISHED[1:]}."
        yield Block(
            heading=WHERE,
            sentences=(words, *([f"The map: {one.state}."] if is_map else []), end),
            header=(sweep.axis, "pairs", "took", "measured") if costs[0].places else (),
            rows=tuple((number(at.size), str(at.pairs), lasting(at.seconds), at.why) for at in costs[0].places),
        )
    elif found:
        yield Block(
            heading=WHERE,
            sentences=(words,),
            header=("search", "pairs", "took", "a grid would have taken", "why it stopped"),
            rows=tuple(
                (
                    one.label,
                    str(cost.pairs),
                    lasting(cost.seconds),
                    lasting(cost.grid_seconds),
                    end.stop or NOT_FINISHED,
                )
                for one, cost, end in zip(found, costs, told, strict=True)
            ),
        )
