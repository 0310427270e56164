"""The report of a study: `report.html`, `report.md`, `crossovers.json` and `charts/`.

Every file is written beside and renamed, so that a reader never meets half of one. The same study gives the
same files, byte for byte.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup

from analysis.blocks import Map
from analysis.conclusion import Conclusion, Group, conclude
from analysis.contents import gather
from analysis.load import Study, load
from analysis.memory import Limits, found_in
from analysis.whole_training import Curves
from sweeps.errors import StudyError
from sweeps.folder import Folder
from sweeps.ladder import TWIN
from sweeps.study import reason

#: Charts beyond this total stay beside the report instead of inside it, so that it can still be mailed.
INLINE_BYTES = 2_000_000
#: Charts that this file writes, and so may take away.
OURS = re.compile(r"(crossover|ladder|best|frontier|memory|losses).*\.(svg|png)")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written, and what it says.

    Attributes:
        sentences: The verdict in words, one a group.
        crossovers: The rows of `analysis.crossovers`, with the column `sentence`.
        warnings: What a reader should know before believing the numbers.
        files: Names of the files that were written into the study; the first is the one to open.
    """

    sentences: tuple[str, ...]
    crossovers: pd.DataFrame
    warnings: tuple[str, ...]
    files: tuple[str, ...]


def write(place: Folder | Path | str) -> Report:
    """Read a study and write its report into it.

    Args:
        place: The study.

    Raises:
        StudyError: The folder cannot be read as a study, or cannot be written.
    """
    study = load(place)
    folder = study.folder
    conclusion = conclude(study)
    contents = gather(study, conclusion)
    charts: dict[str, dict[str, bytes]] = {}
    for group in conclusion.groups:
        charts[_chart_name(group)] = _draw(group, searched=study.sweep.strategy == "adaptive")
        if not group.parts["part"].isin([TWIN]).all():
            charts[_ladder_name(group)] = _draw_ladder(group)
    for block in (*(block for section in contents.sections for block in section.blocks), *contents.blocks):
        if block.drawing is not None:
            charts[_drawing_name(block.drawing)] = _draw_block(block.drawing)
    inlined, spent = {}, 0
    for name, files in charts.items():
        spent += len(files["svg"])
        if spent <= INLINE_BYTES:
            inlined[name] = inline_svg(files["svg"].decode(), prefix=name)
    shown = {
        "contents": contents,
        "chart_name": _chart_name,
        "ladder_name": _ladder_name,
        "drawing_name": _drawing_name,
        "charts": charts,
        "inlined": inlined,
    }
    files = {
        "report.html": _templates().get_template("report.html.j2").render(shown).encode(),
        "report.md": _templates().get_template("report.md.j2").render(shown).encode(),
        "crossovers.json": to_json(study, conclusion).encode(),
        **{f"charts/{name}.{kind}": made for name, both in charts.items() for kind, made in both.items()},
    }
    try:
        _write(folder, files)
    except OSError as error:
        raise StudyError(f"{folder}: the report cannot be written: {reason(error)}") from error
    return Report(
        sentences=contents.verdicts,
        crossovers=conclusion.crossovers,
        warnings=study.warnings,
        files=tuple(files),
    )


def to_json(study: Study, conclusion: Conclusion) -> str:
    """Return the text of `crossovers.json`: strict JSON, with null where a number is not known."""
    content = {
        "study": study.name,
        "crossovers": [plain(row) for row in conclusion.crossovers.to_dict("records")],
        **({"fits": [plain(vars(fit)) for fit in fits]} if (fits := found_in(study)) else {}),
        "warnings": list(study.warnings),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def inline_svg(svg: str, prefix: str) -> Markup:
    """Return an SVG file as an element of a page: no prolog, and names that no other chart of the page has."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r'href="#', f'href="#{prefix}-', body)
    body = re.sub(r"url\(#", f"url(#{prefix}-", body)
    return Markup(body)  # noqa: S704  # drawn by matplotlib, which escapes every text in it


def markdown(text: object) -> str:
    """Return text for a line or a table cell of Markdown, without a meaning in it."""
    plain = " ".join(str(text).split())
    plain = re.sub(r"([\\`*\[\]|~#])", r"\\\1", plain)
    plain = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", plain)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("analysis"),
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["md"] = markdown
    return made


def _chart_name(group: Group) -> str:
    return f"crossover-{group.slug}" if group.slug else "crossover"


def _ladder_name(group: Group) -> str:
    return f"ladder-{group.slug}" if group.slug else "ladder"


def _drawing_name(drawing: Group | Map | Limits | Curves) -> str:
    if isinstance(drawing, Limits):
        return f"memory-{drawing.slug}"
    if isinstance(drawing, Curves):
        return f"losses-{drawing.slug}" if drawing.slug else "losses"
    kind = "best" if isinstance(drawing, Group) else "frontier"
    return f"{kind}-{drawing.slug}" if drawing.slug else kind


def _draw_block(drawing: Group | Map | Limits | Curves) -> dict[str, bytes]:
    if isinstance(drawing, Limits):
        return _draw_limits(drawing)
    if isinstance(drawing, Curves):
        return _draw_curves(drawing)
    return _draw(drawing) if isinstance(drawing, Group) else _draw_map(drawing)


def _draw(group: Group, *, searched: bool = False) -> dict[str, bytes]:
    from analysis.charts import crossover  # seaborn takes a second to import: only a report needs it

    picture = crossover.gather(
        group.frame, group.sizes, group.crossover, group.topic, group.sentence, searched=searched
    )
    return _rendered(lambda: crossover.draw(picture))


def _draw_ladder(group: Group) -> dict[str, bytes]:
    from analysis.charts import parts

    picture = parts.gather(group.parts, group.topic, group.label)
    return _rendered(lambda: parts.draw(picture))


def _draw_map(asked: Map) -> dict[str, bytes]:
    from analysis.charts import frontier

    picture = frontier.gather(asked.frontier, axes=asked.axes, topic=asked.topic, title=asked.title)
    return _rendered(lambda: frontier.draw(picture))


def _draw_limits(asked: Limits) -> dict[str, bytes]:
    from analysis.charts import memory

    picture = memory.gather(asked.fits, axes=asked.axes, topic=asked.topic, title=asked.title)
    return _rendered(lambda: memory.draw(picture))


def _draw_curves(asked: Curves) -> dict[str, bytes]:
    from analysis.charts import losses

    picture = losses.gather(asked)
    return _rendered(lambda: losses.draw(picture))


def _rendered(draw: Callable[[], Any]) -> dict[str, bytes]:
    from analysis.charts.paper import render

    return {"svg": render(draw, "svg"), "png": render(draw, "png")}


def _write(folder: Folder, files: Mapping[str, bytes]) -> None:
    folder.make("charts")
    for name, content in files.items():
        folder.write(name, content)
    for old in folder.names("charts"):  # of groups that are no more
        if f"charts/{old}" not in files and OURS.fullmatch(old):
            folder.remove(f"charts/{old}")


def plain(value: Any) -> Any:
    """Return a value of a frame as JSON knows it."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
