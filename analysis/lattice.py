"""Where to measure next on two axes: a coarse lattice over the whole grid, split where the winner changes, and audited.

1. lattice: every fourth row and column of the grid, and the last ones;
2. split: a block between measured cells is halved both ways where its cells disagree, or where one is too close to
   call; otherwise all that lies in it is taken to have the winner of its corners;
3. audit: some of the cells that were only inferred are measured, always the one farthest from any that was; one that
   disagrees opens its block again. So islands are found that lie between the lines of the lattice.

Cells that are larger in both sizes than one at which a trial ran out of time or memory are not asked: they would end
the same way. No model of the frontier is used, and it may have any shape. Nothing is remembered: the same records give
the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
import pandas as pd

from analysis.censoring import UNDECIDED, describe_known_signs
from analysis.frontier import FAILED, INFERRED, MEASURED, SURROUNDED, UNKNOWN, UNMEASURED
from analysis.local import DRIFT
from analysis.outcomes import NOT_RUN, describe_outcomes
from analysis.question import ask
from analysis.ratios import compare
from analysis.summary import STATES
from analysis.trials import read_trials

STRIDE = 4
CLOSE = 0.2  # a block with a corner below this is split, down to two cells: its neighbours may have the other winner
UNSURE, UNSURE_PAIRS = 0.15, 3  # a cell below this is measured up to three times
AUDIT_SHARE, LEAST_AUDIT = 0.03, 4  # of all cells
STEPS = 5  # timed steps of each trial, at most
AGREE = "the measured cells around it agree"
COLUMNS = ("log_ratio", "low", "high", "pairs", "state", "cell", "cell_why")  # of the map, beside its axes
CELL = "cell_number"  # a column of our own: which cell of the grid a row belongs to, from 1

Cell = tuple[int, int]  # places on x and y


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The cells that may be asked.

    Attributes:
        axes: Columns of sizes, x and y.
        x, y: Their values, ascending.
        baseline: Target that is compared against.
        challenger: Target that is to overtake it.
        margin: Fraction of the baseline's time that the challenger must save.
        max_pairs: Pairs in all.
        nodes: Machines that each measure one pair at a time.
    """

    axes: tuple[str, str]
    x: tuple[float, ...]
    y: tuple[float, ...]
    baseline: str
    challenger: str
    margin: float = 0.0
    max_pairs: int = 1000
    nodes: int = 1

    def __post_init__(self) -> None:
        for name, values in zip(self.axes, (self.x, self.y), strict=True):
            if len(values) < 2 or any(left >= right for left, right in pairwise(values)):
                raise ValueError(f"axis {name!r}: a map needs at least two values, ascending")

    @property
    def cells(self) -> list[Cell]:
        """All places, row by row."""
        return [(i, j) for j in range(len(self.y)) for i in range(len(self.x))]


@dataclass(frozen=True, kw_only=True)
class CellRequest:
    """One pair to measure: both targets at one cell, back to back on one machine.

    Attributes:
        x, y: Sizes, in the units of the axes.
        pass_index: Which pair of that cell it is, from 0.
        steps: Timed steps of each trial, at most.
        stage: finish, lattice, split, audit or repeat.
        why: The reason, for people.
    """

    x: float
    y: float
    pass_index: int
    steps: int
    stage: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """What is known of the grid, and what to do now.

    Attributes:
        requests: Pairs to begin now, at most as many as there are free nodes. Without any and without a reason to stop,
            the pairs under way have to be waited for.
        stop: Why nothing more is worth measuring; else empty.
        cells: One row a cell, by y and then x, with these columns of `analysis.frontier.Frontier.cells`: both axes,
            `log_ratio`, `low`, `high`, `pairs`, `state`, `cell` and `cell_why`. Bands are from the spread of all cells
            together.
    """

    requests: tuple[CellRequest, ...]
    stop: str
    cells: pd.DataFrame


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What was measured of one cell.

    Attributes:
        value: Log ratio with the margin applied; infinite where only the sign is known; NaN where nothing is.
        state: Who is faster beyond doubt, or UNDECIDED.
        ratio, half: Log ratio without margin, and half the width of its band; NaN where there is none.
        pairs: Pairs that were used.
        known: Why the faster target is known without a ratio, else empty.
        ended: How its trials ended, in words: those of the baseline, those of the challenger.
        too_large: Whether all trials of a target ran out of time or memory.
        asked: Whether it was measured; a cell that is larger than one that is too large is known from that one.
    """

    value: float
    state: int
    ratio: float
    half: float
    pairs: int
    known: str
    ended: str
    too_large: bool
    asked: bool = True

    @property
    def sign(self) -> int:
        """Who seems faster; 0 where nothing is known."""
        return 0 if math.isnan(self.value) else int(np.sign(self.value))


@dataclass(frozen=True, kw_only=True)
class _Block:
    """A rectangle of cells, its edges included: places from (left, bottom) to (right, top)."""

    left: int
    right: int
    bottom: int
    top: int

    @property
    def corners(self) -> set[Cell]:
        return set(product((self.left, self.right), (self.bottom, self.top)))

    @property
    def span(self) -> int:
        return max(self.right - self.left, self.top - self.bottom)

    def holds(self, cell: Cell) -> bool:
        return self.left <= cell[0] <= self.right and self.bottom <= cell[1] <= self.top

    def halves(self) -> Iterator[_Block]:
        """Its quarters; or its halves, where it is one cell wide."""
        columns = _split(self.left, self.right)
        for (left, right), (bottom, top) in product(columns, _split(self.bottom, self.top)):
            yield _Block(left=left, right=right, bottom=bottom, top=top)


def ask_cells(frame: pd.DataFrame, grid: Grid, *, pending: Sequence[CellRequest] = ()) -> Mapped:
    """Say where on two axes to measure next, and what is known so far.

    Args:
        frame: The records so far, one row a trial, with both axes, as `analysis.crossovers` takes them. Every row
            counts as an answer.
        grid: The cells that may be asked.
        pending: Pairs under way, of which not all rows are there.

    Returns:
        The next pairs or the reason to stop, and the map.

    Raises:
        ValueError: If a column is missing, a target is unknown, or an axis is not numeric.
    """
    rows = _numbered(frame, grid)
    seen = _with_larger(_see(rows, grid), grid)
    passes, unfinished = _passes(rows, grid, pending)
    wanted, inferred = _explore(seen, passes.keys() | seen.keys(), grid)
    requests = [
        CellRequest(
            x=grid.x[i],
            y=grid.y[j],
            pass_index=index,
            steps=STEPS,
            stage="finish",
            why="only one target has been measured",
        )
        for (i, j), index in unfinished
    ]
    if not requests:  # else alone: the same pair must not be asked a second time for another reason
        # Small cells first: what runs out of time or memory there saves the larger ones.
        order = sorted(wanted, key=lambda cell: (sum(cell), cell))
        requests = _repeats(seen, passes, grid) + [_request(cell, passes, grid, *wanted[cell]) for cell in order]
    if not requests and not pending:
        requests = _audit(seen, inferred, passes, grid)
    asked = sum(map(len, passes.values()))
    stop = (
        "" if requests or pending else "every cell is measured, or lies among cells that agree, and the audit is done"
    )
    if requests and asked >= grid.max_pairs:
        requests, stop = [], f"{asked} pairs were measured, which is the most that was asked for"
    free = max(0, min(grid.nodes - len(pending), grid.max_pairs - asked))
    return Mapped(requests=tuple(requests[:free]), stop="" if pending else stop, cells=_table(seen, inferred, grid))


def _numbered(frame: pd.DataFrame, grid: Grid) -> pd.DataFrame:
    """The rows of cells of the grid, with the number of their cell."""
    if frame.empty:
        return pd.DataFrame({name: [] for name in (CELL, "target", "status", "step_times_s", "pass_index")})
    places = {(grid.x[i], grid.y[j]): 1 + i + j * len(grid.x) for i, j in grid.cells}
    x, y = (pd.to_numeric(frame[name]).tolist() for name in grid.axes)
    number = np.array([places.get((float(a), float(b)), 0) for a, b in zip(x, y, strict=True)])
    return frame.assign(**{CELL: number})[number > 0]


def _see(rows: pd.DataFrame, grid: Grid) -> dict[Cell, _Seen]:
    """What is known of each measured cell; the spread of all cells is pooled, as if they were sizes of one axis."""
    question = ask(
        rows,
        axis=CELL,
        baseline=grid.baseline,
        challenger=grid.challenger,
        group_by=None,
        margin=grid.margin,
        drift=DRIFT,
    )
    points, trials = read_trials(rows, question)
    ratios = compare(points, trials, question)
    value = ratios.ratio + question.shift
    value[ratios.known != UNDECIDED] = np.inf * ratios.known[ratios.known != UNDECIDED]
    known = describe_known_signs(ratios.known, ratios.outcomes, question)
    ended = describe_outcomes(trials, len(points.size))
    failed = ratios.outcomes.timeout + ratios.outcomes.oom
    too_large = ((failed > 0) & (ratios.outcomes.finished == 0)).any(axis=1)
    seen = {}
    for place, number in enumerate(points.size.astype(np.int64).tolist()):
        j, i = divmod(number - 1, len(grid.x))
        seen[i, j] = _Seen(
            value=float(value[place]),
            state=int(ratios.state[place]),
            ratio=float(ratios.ratio[place]),
            half=float(ratios.half[place]),
            pairs=int(ratios.pairs[place]),
            known=known[place],
            ended="; ".join(f"{name}: {told}" for name, told in zip(question.targets, ended[place], strict=True)),
            too_large=bool(too_large[place]),
        )
    return seen


def _with_larger(seen: dict[Cell, _Seen], grid: Grid) -> dict[Cell, _Seen]:
    """Add the cells that are larger than one at which a trial ran out of time or memory."""
    found = dict(seen)
    for (i, j), one in sorted(seen.items(), key=lambda pair: math.isnan(pair[1].value)):  # what says nothing comes last
        if one.too_large:
            larger = product(range(i, len(grid.x)), range(j, len(grid.y)))
            known, ended = (f"{text}, at a smaller size" if text else "" for text in (one.known, one.ended))
            beyond = replace(one, known=known, ended=ended, pairs=0, ratio=math.nan, half=math.nan, asked=False)
            found |= dict.fromkeys((cell for cell in larger if cell not in seen), beyond)
    return found


def _passes(
    rows: pd.DataFrame, grid: Grid, pending: Sequence[CellRequest]
) -> tuple[dict[Cell, set[int]], list[tuple[Cell, int]]]:
    """By cell the pairs that are complete or under way, and those of which one target is missing."""
    sides: dict[tuple[Cell, int], set[str]] = {}
    wanted = rows["target"].isin([grid.baseline, grid.challenger])
    if "rung" in rows.columns:
        wanted &= rows["rung"] == "e2e"
    rows = rows[wanted]
    for number, index, target in zip(rows[CELL], rows["pass_index"], rows["target"], strict=True):
        j, i = divmod(int(number) - 1, len(grid.x))
        sides.setdefault(((i, j), int(index)), set()).add(str(target))
    under_way = {((grid.x.index(one.x), grid.y.index(one.y)), one.pass_index) for one in pending}
    passes: dict[Cell, set[int]] = {}
    for cell, index in [*(pair for pair, found in sides.items() if len(found) == 2), *under_way]:
        passes.setdefault(cell, set()).add(index)
    half = sorted(pair for pair, found in sides.items() if len(found) == 1 and pair not in under_way)
    return passes, half


def _explore(
    seen: dict[Cell, _Seen], asked: set[Cell], grid: Grid
) -> tuple[dict[Cell, tuple[str, str]], dict[Cell, int]]:
    """The cells that the lattice and its splits still want, with stage and reason; and the cells that are inferred."""
    wanted: dict[Cell, tuple[str, str]] = {}
    inferred: dict[Cell, int] = {}
    blocks = [
        (_Block(left=left, right=right, bottom=bottom, top=top), "lattice", "to see the whole map")
        for (left, right), (bottom, top) in product(_lines(len(grid.x)), _lines(len(grid.y)))
    ]
    while blocks:
        block, stage, why = blocks.pop()
        missing = block.corners - asked
        wanted |= dict.fromkeys(sorted(missing), (stage, why))
        if not block.corners <= seen.keys():
            continue
        signs = {one.sign for cell, one in seen.items() if block.holds(cell)}
        values = [abs(seen[corner].value) for corner in block.corners]
        closest = min((value for value in values if not math.isnan(value)), default=math.inf)
        if len(signs) > 1 and block.span > 1:
            blocks += [(part, "split", "its neighbours disagree") for part in block.halves()]
        elif closest <= CLOSE and block.span > 2:
            blocks += [(part, "split", "a corner is too close to call") for part in block.halves()]
        elif len(signs) == 1:
            within = product(range(block.left, block.right + 1), range(block.bottom, block.top + 1))
            inferred |= dict.fromkeys((cell for cell in within if cell not in asked), *signs)
    return wanted, {cell: sign for cell, sign in inferred.items() if cell not in wanted}


def _repeats(seen: dict[Cell, _Seen], passes: dict[Cell, set[int]], grid: Grid) -> list[CellRequest]:
    """Further pairs of cells that are too close to call."""
    unsure = [cell for cell, one in sorted(seen.items()) if abs(one.value) < UNSURE and one.asked]
    return [
        _request(cell, passes, grid, "repeat", "both targets are close here")
        for cell in unsure
        if len(passes.get(cell, ())) < UNSURE_PAIRS
    ]


def _audit(
    seen: dict[Cell, _Seen], inferred: dict[Cell, int], passes: dict[Cell, set[int]], grid: Grid
) -> list[CellRequest]:
    """The inferred cells that are farthest from any measured one, until enough have been looked at.

    What has been audited is known from the records: measured cells that no block asked for.
    """
    wanted, _ = _explore(seen, set(), grid)  # all that the blocks ever ask for, given what is known
    audited = len(set(passes) - set(wanted))
    most = max(LEAST_AUDIT, math.ceil(AUDIT_SHARE * len(grid.cells)))
    left = sorted(cell for cell, sign in inferred.items() if sign)
    measured = np.array(sorted(passes), dtype=np.float64).reshape(-1, 2)
    requests: list[CellRequest] = []
    while left and len(requests) < min(most - audited, grid.nodes):
        far = ((np.array(left, dtype=np.float64)[:, None] - measured) ** 2).sum(axis=2).min(axis=1)
        cell = left.pop(int(np.argmax(far)))
        measured = np.append(measured, [cell], axis=0)
        requests.append(_request(cell, passes, grid, "audit", "to see whether what was inferred is true"))
    return requests


def _request(cell: Cell, passes: dict[Cell, set[int]], grid: Grid, stage: str, why: str) -> CellRequest:
    taken = passes.get(cell, set())
    index = next(number for number in range(len(taken) + 1) if number not in taken)
    return CellRequest(x=grid.x[cell[0]], y=grid.y[cell[1]], pass_index=index, steps=STEPS, stage=stage, why=why)


def _table(seen: dict[Cell, _Seen], inferred: dict[Cell, int], grid: Grid) -> pd.DataFrame:
    """The map, one row a cell."""
    rows = []
    for cell in grid.cells:
        one, state, why = seen.get(cell), UNKNOWN, ""
        if one is not None and one.pairs:
            kind, state = MEASURED, STATES[one.state]
        elif one is not None and one.known:
            kind, state, why = INFERRED if one.asked else SURROUNDED, STATES[one.state], one.known
        elif one is not None:
            kind, why = FAILED if one.asked else UNMEASURED, one.ended
        elif inferred.get(cell):
            kind, state, why = SURROUNDED, STATES[inferred[cell]], AGREE
        else:
            kind, why = UNMEASURED, NOT_RUN
        ratio, half, pairs = (one.ratio, one.half, one.pairs) if one is not None else (math.nan, math.nan, 0)
        rows.append((grid.x[cell[0]], grid.y[cell[1]], ratio, ratio - half, ratio + half, pairs, state, kind, why))
    return pd.DataFrame(rows, columns=[*grid.axes, *COLUMNS])


def _lines(count: int) -> list[tuple[int, int]]:
    """Neighbouring lines of the lattice along one axis."""
    return list(pairwise(sorted({*range(0, count, STRIDE), count - 1})))


def _split(first: int, last: int) -> list[tuple[int, int]]:
    middle = (first + last) // 2
    return [(first, middle), (middle, last)] if middle > first else [(first, last)]
