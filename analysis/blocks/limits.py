"""What fits into memory."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import memory
from analysis.blocks.block import Block
from analysis.load import Study
from analysis.strategy import is_size


def blocks(study: Study) -> Iterator[Block]:
    """Say what fits into memory, where that was asked or where something did not fit."""
    found = memory.found_in(study)
    if not found:
        return
    sizes = [name for name in study.group_by if name in study.sweep.axes and is_size(name, study.sweep)]
    drawn = memory.charts(found, study, sizes)
    yield Block(
        heading="What fits into memory",
        sentences=memory.told(found, study),
        header=memory.header(study),
        rows=tuple(memory.row(fit, study) for fit in found),
        notes=(memory.HOW_LARGE,),
        drawing=drawn[0] if len(drawn) == 1 else None,
    )
    for one in drawn if len(drawn) > 1 else ():
        heading = f"The largest {one.axes[0]} over {one.axes[1]}" + (f": {one.label}" if one.label else "")
        yield Block(heading=heading, sentences=(one.title,), drawing=one)
