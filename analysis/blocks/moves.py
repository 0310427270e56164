"""How far a lever moves the change."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.blocks.block import Block
from analysis.blocks.maps import is_mapped
from analysis.conclusion import Conclusion, label_of
from analysis.load import Study, stored_values
from analysis.rounding import shown
from analysis.shift import shift, shift_words


def blocks(study: Study, conclusion: Conclusion) -> Iterator[Block]:
    """Say how far the change moves from the first value of an axis to each other one, all else equal."""
    sweep = study.sweep
    for name in [axis for axis in study.group_by if axis in sweep.axes]:
        if is_mapped(name, sweep):
            continue
        order = {value: place for place, value in enumerate(stored_values(sweep, name))}
        places = conclusion.crossovers[name].map(order).sort_values(kind="stable")
        rows = conclusion.crossovers.loc[places.index]
        others = [other for other in study.group_by if other != name]
        sentences = []
        for _, own in rows.groupby(others, dropna=False) if others else [((), rows)]:
            first, *rest = ({str(key): value for key, value in row.items()} for row in own.to_dict("records"))
            where = label_of({other: first[other] for other in others})
            for row in rest:
                if (found := shift(first, row)) is not None:
                    words = [f"{name} {shown(each[name])}" for each in (first, row)]
                    said = shift_words(found, axis=sweep.axis, first=words[0], second=words[1])
                    sentences.append(f"{where}: {said}" if where else said)
        if sentences:
            yield Block(heading=f"How far {name} moves the change", sentences=tuple(sentences))
