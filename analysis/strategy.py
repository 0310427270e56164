"""What a sweep that looks for its own sizes wants to be measured next: deciding, apart from running.

A sweep with `strategy: adaptive` has one *search* for each combination of the axes that are not searched over: along
the first axis (`analysis.adaptive`), or over the first two as a map (`analysis.lattice`): see `map_axis`. The searches
are asked in turn, always the one with the fewest pairs. Nothing is remembered between two questions: the same sweep,
rows, pairs under way and nodes give the same answer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.adaptive import LONG_STEPS, Advice, Range, Request, Search, advise
from analysis.frontier import SURROUNDED, UNMEASURED
from analysis.largest import NO_FIT, STEPS, Fit, fits_of, next_size, size_words
from analysis.lattice import CellRequest, Grid, Mapped, ask_cells
from analysis.load import stored_values, with_resolution
from analysis.outcomes import ASKED_AGAIN
from analysis.rounding import Scale, listed, shown
from sweeps.axis import Span, values_of
from sweeps.definition import Sweep
from sweeps.families import FAMILIES
from sweeps.ladder import HEADLINE
from sweeps.parameter import Value
from sweeps.workload import accelerator_levers

#: With fewer values than this an axis is no map: each of them is a search of its own.
LEAST_ROWS = 3
#: The last octave of a span may be longer or shorter than the others by this factor.
NEAR_END = 1.1
#: Said of a search that has not stopped.
NOT_FINISHED = "the search is not finished: the same command goes on"
#: Combinations, or changes, named in one sentence; further ones are counted.
NAMED = 4


@dataclass(frozen=True, kw_only=True)
class Wish:
    """One pair that a sweep wants to be measured.

    Attributes:
        values: Of all axes.
        pass_index: Which pair at these values, from 0.
        most_steps: Timed values of each trial at most; None for as many as the protocol takes.
        targets: Names of the targets to run; empty for all of the sweep.
        stage: What part of the search it belongs to, in a word.
        why: The reason, for people.
    """

    values: Mapping[str, Value]
    pass_index: int
    most_steps: int | None
    targets: tuple[str, ...] = ()
    stage: str
    why: str

    @property
    def key(self) -> tuple[tuple[tuple[str, Value], ...], int, tuple[str, ...]]:
        """What tells it from other wishes; it can be hashed."""
        return tuple(sorted(self.values.items())), self.pass_index, self.targets


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a sweep wants now.

    Attributes:
        wishes: The pairs to begin now, at most one a free machine. Without any and without a reason to stop, the pairs
            under way have to be waited for.
        stop: Why nothing more is worth measuring; else empty.
        state: What is known so far, in one line for people: "between batch_size 610 and 790 (12 pairs)".
    """

    wishes: tuple[Wish, ...]
    stop: str
    state: str


def next_wishes(sweep: Sweep, frame: pd.DataFrame, *, pending: Sequence[Wish] = (), nodes: int = 1) -> Asked:
    """Say what a sweep that looks for its own sizes wants to be measured next.

    Args:
        sweep: What is asked, with a `strategy` other than `grid`.
        frame: The records so far, one row an attempt of a trial; empty before the first. Every row counts as an answer:
            whoever wants a lost trial to be asked once more leaves its row out.
        pending: Wishes that are under way, of which not all rows are there.
        nodes: Machines that are free now; each measures one pair at a time.

    Returns:
        The next wishes, or the reason to stop.

    Raises:
        ValueError: The sweep is a grid, whose trials are known beforehand; or an axis is too short to be searched.
    """
    if sweep.strategy == "adaptive":
        return _ask_all(searches(sweep, frame, pending=pending), free=nodes, busy=len(pending))
    if sweep.strategy == "largest":
        return _ask_targets(sweep, frame, pending, free=nodes)
    raise ValueError(f"strategy: {sweep.strategy} has a plan, and wishes for nothing beyond it")


# ------------------------------------------------------------------------------------------------------------- adaptive


@dataclass(frozen=True, kw_only=True)
class Searched:
    """One search of an adaptive sweep, and what it has got so far.

    Attributes:
        sweep: What is asked.
        key: Values of the axes that it does not search over.
        rows: Its rows: one an attempt of a trial of the whole step, of baseline and challenger.
        pending: Its pairs under way.
    """

    sweep: Sweep
    key: Mapping[str, Value]
    rows: pd.DataFrame
    pending: tuple[Wish, ...] = ()

    @property
    def label(self) -> str:
        """What tells it from the others, such as "width 64"; empty if it is the only one."""
        several = [name for name in self.key if len(asked_values(self.sweep, name)) > 1]
        return ", ".join(f"{name} {shown(self.key[name])}" for name in several)

    @property
    def pairs(self) -> int:
        """Pairs that are complete or under way."""
        pair = [name for name in self.sweep.axes if name not in self.key] + ["pass_index"]
        sides = self.rows[[*pair, "target"]].drop_duplicates() if len(self.rows) else pd.DataFrame(columns=pair)
        complete = set(sides.loc[sides.duplicated(pair), pair].itertuples(index=False, name=None))
        return len(complete | {(*(wish.values[name] for name in pair[:-1]), wish.pass_index) for wish in self.pending})

    @property
    def question(self) -> Search:
        """What is searched for along the first axis, with one machine."""
        sweep = self.sweep
        return Search(
            axis=sweep.axis,
            range=_range(sweep),
            baseline=sweep.baseline,
            challenger=sweep.challenger,
            margin=sweep.margin,
            half_width=sweep.half_width,
            max_pairs=sweep.max_pairs,
            seed=sweep.seed,
        )

    def advice(self, *, nodes: int = 1) -> Advice:
        """Return what the search along the first axis wants of so many machines, and what it knows."""
        axis = self.sweep.axis
        under_way = [Request(size=float(wish.values[axis]), **_begun(wish)) for wish in self.pending]
        return advise(self.rows, replace(self.question, nodes=nodes), pending=under_way)

    def mapped(self, *, nodes: int = 1) -> Mapped:
        """Return what the search over the first two axes wants of so many machines, and its map."""
        grid = grid_of(self.sweep)
        x, y = grid.axes
        under_way = [
            CellRequest(x=float(wish.values[x]), y=float(wish.values[y]), **_begun(wish)) for wish in self.pending
        ]
        return ask_cells(self.rows, replace(grid, nodes=nodes), pending=under_way)

    def ask(self, *, nodes: int = 1) -> Asked:
        """Return what the search wants.

        Args:
            nodes: Machines it may use, those that are busy with it counted.
        """
        if map_axis(self.sweep):
            found = self.mapped(nodes=nodes)
            x, y = grid_of(self.sweep).axes
            cells = tuple(self._wish({x: one.x, y: one.y}, one) for one in found.requests)
            state = f"{_map_words(found)} ({self.pairs - len(self.pending)} pairs)"
            return Asked(wishes=cells, stop=found.stop, state=state)
        advice = self.advice(nodes=nodes)
        sizes = tuple(self._wish({self.sweep.axis: one.size}, one) for one in advice.requests)
        return Asked(wishes=sizes, stop=advice.stop, state=self._words(advice))

    def _wish(self, sizes: Mapping[str, float], request: Request | CellRequest) -> Wish:
        own = {name: _value(self.sweep.axes[name], size) for name, size in sizes.items()} | dict(self.key)
        return Wish(
            values={name: own[name] for name in self.sweep.axes},
            pass_index=request.pass_index,
            most_steps=request.steps,
            stage=request.stage,
            why=request.why,
        )

    def _words(self, advice: Advice) -> str:
        count = f"({advice.pairs} pair{'s' * (advice.pairs != 1)})"
        if not advice.intervals:
            return f"no change of the winner so far {count}"
        scale = Scale.of([float(size) for size in self.rows[self.sweep.axis]])
        spans = [f"{scale.show(low, -1)} and {scale.show(high, 1)}" for low, high in advice.intervals]
        return f"between {self.sweep.axis} {'; '.join(spans)} {count}"


def _begun(wish: Wish) -> dict[str, Any]:
    """What a wish under way has in common with the request of the search that it came from."""
    return {
        "pass_index": wish.pass_index,
        "steps": wish.most_steps or LONG_STEPS,
        "stage": wish.stage,
        "why": wish.why,
    }


def searches(sweep: Sweep, frame: pd.DataFrame, *, pending: Sequence[Wish] = ()) -> tuple[Searched, ...]:
    """Return the searches of an adaptive sweep: one for each combination of the axes that are not searched over.

    Args:
        sweep: What is asked.
        frame: As `next_wishes` takes it.
        pending: Likewise.
    """
    rivals = _rivals(sweep, frame)
    others = [name for name in sweep.axes if name not in (sweep.axis, map_axis(sweep))]
    found = []
    for values in itertools.product(*(asked_values(sweep, name) for name in others)):
        key = dict(zip(others, values, strict=True))
        own = tuple(wish for wish in pending if all(wish.values[name] == value for name, value in key.items()))
        found.append(Searched(sweep=sweep, key=key, rows=_own_rows(sweep, rivals, key), pending=own))
    return tuple(found)


def answers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that are answers: a machine that was lost, or was not there, is asked again by the next run."""
    return frame[~frame["status"].isin(ASKED_AGAIN)]


def map_axis(sweep: Sweep) -> str:
    """Return the second axis of an adaptive sweep where the first two are explored as a map; else nothing.

    That is so where the second is one of sizes, and a span, or a list beside a list. Beside a span that is solved for,
    each value of a list is a search of its own, which finds its change more exactly than a map of octaves.
    """
    second = next(itertools.islice(sweep.axes, 1, None), "")
    if sweep.strategy != "adaptive" or not second or not is_size(second, sweep):
        return ""
    spans = isinstance(sweep.axes[sweep.axis], Span), isinstance(sweep.axes[second], Span)
    return "" if spans == (True, False) else second


def is_size(name: str, sweep: Sweep) -> bool:
    """Whether an axis is one of sizes, over which a map makes sense, and no lever."""
    axis = sweep.axes[name]
    if not isinstance(axis, Span) and (any(isinstance(v, str | bool) for v in axis) or len(axis) < LEAST_ROWS):
        return False
    family = FAMILIES.get(sweep.workload)
    return family is None or (name in family.parameters and name not in family.usual)


def grid_of(sweep: Sweep) -> Grid:
    """Return the cells of a sweep over two axes: their listed values, and of a span its octaves.

    Raises:
        ValueError: An axis has one value only.
    """
    axes = sweep.axis, map_axis(sweep)
    x, y = (tuple(sorted(float(value) for value in asked_values(sweep, name))) for name in axes)
    return Grid(
        axes=axes,
        x=x,
        y=y,
        baseline=sweep.baseline,
        challenger=sweep.challenger,
        margin=sweep.margin,
        max_pairs=sweep.max_pairs * len(y),  # as many as a search for each value of the second axis could take
    )


def asked_values(sweep: Sweep, axis: str) -> list[Value]:
    """Return the values of an axis as the sweep has them; of a span its octaves: low end, its doubles, high end."""
    asked = sweep.axes[axis]
    if not isinstance(asked, Span):
        return asked
    low, high = asked.low, asked.high
    if isinstance(low, bool | str) or isinstance(high, bool | str):  # no span has such ends; this tells mypy
        raise TypeError(f"axes.{axis}: a span is one of numbers")
    octaves: list[Value] = [low * 2**place for place in range(1, math.floor(math.log2(high / low) + 1e-9) + 1)]
    return [low, *(size for size in octaves if float(size) * NEAR_END < high), high]


def _ask_all(parts: Sequence[Searched], *, free: int, busy: int) -> Asked:
    """Ask the searches in turn, the one with the fewest pairs first, until every free machine has a pair."""
    machines = max(1, free + busy)
    turn = sorted(range(len(parts)), key=lambda number: parts[number].pairs)
    wishes: list[tuple[int, Wish]] = []
    answers: dict[int, Asked] = {}
    # Each search gets its share of the machines; then whoever can use more gets those that are left.
    for share in dict.fromkeys((math.ceil(machines / len(parts)), machines)):
        for number in turn:
            if len(wishes) == free:
                break
            if number in answers and answers[number].stop:
                continue
            begun = tuple(wish for one, wish in wishes if one == number)
            found = replace(parts[number], pending=(*parts[number].pending, *begun)).ask(nodes=share)
            wishes += [(number, wish) for wish in found.wishes[: free - len(wishes)]]
            answers.setdefault(number, found)
    told = next((number for number, _ in wishes), next((n for n in turn if parts[n].pending), turn[0]))
    state = (answers[told] if told in answers else parts[told].ask(nodes=machines)).state
    label = parts[told].label
    stops: dict[str, list[str]] = {}
    for number, answer in sorted(answers.items()):
        stops.setdefault(answer.stop, []).append(parts[number].label)
    stop = "; ".join(f"{listed(labels, NAMED)}: {why}" if len(parts) > 1 else why for why, labels in stops.items())
    return Asked(
        wishes=tuple(wish for _, wish in wishes),
        stop="" if wishes or busy else stop,
        state=f"{label}: {state}" if label else state,
    )


def _rivals(sweep: Sweep, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the whole step of the two targets that are compared, each with what its clock can tell apart."""
    if frame.empty:
        return frame
    whole = frame["rung"].fillna(HEADLINE).eq(HEADLINE) if "rung" in frame else True
    rows = frame[frame["target"].isin([sweep.baseline, sweep.challenger]) & whole]
    return with_resolution(rows) if "steps_per_block" in rows else rows


def _own_rows(sweep: Sweep, rows: pd.DataFrame, key: Mapping[str, Value]) -> pd.DataFrame:
    """The rows of one combination.

    A lever that means nothing on a CPU is null in its rows: one trial is the partner of those of all values. It belongs
    to a search as soon as that has asked for the same pair itself.
    """
    if rows.empty:
        return rows
    own, shared = pd.Series(True, index=rows.index), pd.Series(False, index=rows.index)
    for name, value in key.items():
        stored = dict(zip(asked_values(sweep, name), stored_values(sweep, name), strict=True))[value]
        lacking = rows[name].isna()
        own &= rows[name].eq(stored) | lacking
        shared |= lacking & (not lacking.all())
    if not shared[own].any():
        return rows[own]
    pair = [name for name in sweep.axes if name not in key] + ["pass_index"]
    begun = pd.MultiIndex.from_frame(rows.loc[own & ~shared, pair])
    return rows[own & (~shared | pd.MultiIndex.from_frame(rows[pair]).isin(begun))]


def _range(sweep: Sweep) -> Range:
    """The sizes of the first axis that may be asked."""
    asked = sweep.axes[sweep.axis]
    low, *_, high = sizes = sorted(float(value) for value in values_of(asked))
    if isinstance(asked, Span):
        return Range(low=low, high=high, whole=asked.whole)
    return Range(low=low, high=high, whole=all(size.is_integer() for size in sizes), values=tuple(sizes))


def _value(axis: Sequence[Value] | Span, size: float) -> Value:
    """A size as its axis has it: a whole number where those are whole."""
    if isinstance(axis, Span):
        return int(size) if axis.whole else size
    return next(value for value in axis if float(value) == size)


def _map_words(found: Mapped) -> str:
    kinds = found.cells["cell"].value_counts()
    among = f", {kinds[SURROUNDED]} lie among cells that agree" if SURROUNDED in kinds else ""
    measured = len(found.cells) - sum(int(kinds.get(kind, 0)) for kind in (SURROUNDED, UNMEASURED))
    return f"{measured} of {len(found.cells)} cells measured{among}"


# -------------------------------------------------------------------------------------------------------------- largest


@dataclass(frozen=True, kw_only=True)
class _Target:
    """The search for the largest size that fits one target, at one combination of the other axes.

    Attributes:
        name: Of the target.
        key: Values of the axes that mean something on it.
        values: Of all axes but the first.
        trials: How many of its trials have a row.
        fit: What is known.
        is_busy: Whether a trial of it is under way: the next size depends on its answer.
    """

    name: str
    key: Mapping[str, Value]
    values: Mapping[str, Value]
    trials: int
    fit: Fit
    is_busy: bool

    @property
    def label(self) -> str:
        """What tells it from the others, such as "gpu, width 64"."""
        return ", ".join([self.name, *(f"{name} {shown(value)}" for name, value in self.key.items())])


def _ask_targets(sweep: Sweep, frame: pd.DataFrame, pending: Sequence[Wish], *, free: int) -> Asked:
    """Ask each target for the next size that is to be tried, the one with the fewest trials first."""
    parts = sorted(_targets(sweep, frame, pending), key=lambda part: part.trials)
    sizes = _range(sweep)
    answers = [next_size(part.fit, sizes) for part in parts]
    wishes = [
        Wish(
            values={sweep.axis: _value(sweep.axes[sweep.axis], size)} | dict(part.values),
            pass_index=0,
            most_steps=STEPS,
            targets=(part.name,),
            stage="upwards" if part.fit.fails is None else "between",
            why=why,
        )
        for part, (size, why) in zip(parts, answers, strict=True)
        if size is not None and not part.is_busy
    ][:free]
    asked = [part for part, (size, _) in zip(parts, answers, strict=True) if size is not None and not part.is_busy]
    told = asked[0] if asked else max(parts, key=lambda part: (part.is_busy, part.trials))
    state = f"{told.label}: {size_words(told.fit)} ({told.trials} trial{'s' * (told.trials != 1)})"
    if wishes or any(part.is_busy for part in parts):
        return Asked(wishes=tuple(wishes), stop="", state=state)
    ends = [f"{part.label}: {why}" for part, (_, why) in zip(parts, answers, strict=True)]
    more = [f"and {len(ends) - NAMED} more"] if len(ends) > NAMED else []
    return Asked(wishes=(), stop="; ".join([*ends[:NAMED], *more]), state=state)


def _targets(sweep: Sweep, frame: pd.DataFrame, pending: Sequence[Wish]) -> list[_Target]:
    """Return the searches, in the order of targets and values."""
    others = [name for name in sweep.axes if name != sweep.axis]
    idle = accelerator_levers(sweep.workload)
    whole = frame if frame.empty or "rung" not in frame else frame[frame["rung"].fillna(HEADLINE) == HEADLINE]
    found = []
    for target in sweep.targets:
        own = whole if whole.empty else whole[whole["target"] == target.name]
        seen: set[tuple[Value, ...]] = set()
        for values in itertools.product(*(asked_values(sweep, name) for name in others)):
            asked = dict(zip(others, values, strict=True))
            # A lever that means nothing on a CPU makes no other trial there.
            key = {name: value for name, value in asked.items() if target.needs_accelerator or name not in idle}
            if tuple(key.values()) in seen:
                continue
            seen.add(tuple(key.values()))
            rows = own
            for name, value in key.items():
                rows = rows if rows.empty else rows[rows[name].eq(_stored(sweep, name, value))]
            fits = [] if rows.empty else fits_of(rows, axis=sweep.axis, targets=[target.name])
            busy = [wish for wish in pending if target.name in wish.targets]
            found.append(
                _Target(
                    name=target.name,
                    key=key,
                    values=asked,
                    trials=0 if rows.empty else rows[sweep.axis].nunique(),
                    fit=fits[0] if fits else replace(NO_FIT, target=target.name),
                    is_busy=any(all(wish.values[name] == value for name, value in key.items()) for wish in busy),
                )
            )
    return found


def _stored(sweep: Sweep, axis: str, value: Value) -> Value:
    """Return a value of an axis as rows hold it."""
    if isinstance(sweep.axes[axis], Span):
        return value
    return dict(zip(asked_values(sweep, axis), stored_values(sweep, axis), strict=True))[value]
