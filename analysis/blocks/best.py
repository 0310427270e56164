"""The best way to run on a CPU against the best on an accelerator."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.blocks.block import Block
from analysis.conclusion import judge, rows_of
from analysis.load import Study
from analysis.partners import spread
from analysis.rivals import bars, best_of
from analysis.rounding import NOTHING, number, seconds
from analysis.sentence import ratio, ratio_range

#: Parameters that change how a step is done and nothing that it computes: their values are variants of one way to run.
HOW = ("transfer", "loader", "loader_workers", "foreach", "fused")
#: What the best way to run on a CPU is called, and the best on an accelerator; no target can have a name like that.
BEST = {False: "best cpu", True: "best gpu"}
HOW_CHOSEN = (
    "At each size the fastest way to run on either side is the bar. Which one that is in a pass is chosen by the other "
    "passes, so that a lucky trial does not set it."
)


def blocks(study: Study) -> Iterator[Block]:
    """Compare the best way to run on a CPU with the best on an accelerator, where there are several of either."""
    sweep = study.sweep
    ways: dict[bool, list[str]] = {False: [], True: []}
    for target in sweep.targets:
        if target.wait:
            ways[target.needs_accelerator].append(target.name)
    first = sweep.target(sweep.baseline).needs_accelerator
    sides = {BEST[is_gpu]: ways[is_gpu] for is_gpu in (first, not first)}
    variants = [name for name in study.group_by if name in HOW]
    if not all(sides.values()) or (not variants and all(len(own) == 1 for own in sides.values())):
        return
    if variants and sweep.strategy == "adaptive":
        return  # each variant was measured near its own change, so that hardly a size has all of them
    others = [name for name in study.group_by if name not in variants]
    best = best_of(spread(study.compared, others), axis=sweep.axis, sides=sides, group_by=others, variants=variants)
    names = tuple(sides)
    _, groups = judge(best, study, (names[0], names[1]), group_by=others)
    told = bars(best, axis=sweep.axis, group_by=others)
    for group in groups:
        own = rows_of(told, {name: group.crossover[name] for name in others})
        by_size = {name: own[own["target"] == name].set_index(sweep.axis)["variants"] for name in names}
        roles = dict(zip(("baseline", "challenger"), names, strict=True))
        rows = tuple(
            (
                number(float(row[sweep.axis])),
                *(
                    f"{seconds(row[f'{role}_s'])}: {by_size[name].get(row[sweep.axis], NOTHING)}"
                    for role, name in roles.items()
                ),
                ratio(row["log_ratio"], group.topic),
                ratio_range(row["log_ratio_low"], row["log_ratio_high"], group.topic),
            )
            for row in group.sizes.to_dict("records")
        )
        yield Block(
            heading="Best against best" + (f": {group.label}" if group.label else ""),
            sentences=(group.sentence,),
            header=(sweep.axis, *names, "compared", "95 % band"),
            rows=rows,
            notes=(HOW_CHOSEN,),
            drawing=group,
        )
