"""What an adaptive search costs and how often it is right, against the octave grid, on made machines of known truth.

    python benchmarks/adaptive.py

Each machine has a range of 10 to 12 octaves, a kind of `simulator.py` with its crossing anywhere in that range, and the
noise law of that module. The same machine answers both ways of asking: pair by pair where `analysis.adaptive` says, and
the octave grid with five passes. Prints one line of JSON. Figures are named `kind.<what>` or `clear.<what>`, which is
over all clear kinds that cross once:

- `pairs_median`, `pairs_p90`: pairs that the search measured;
- `saved_median_share`, `saved_worst_tenth_share`: how much less time than the grid, in timed steps; `..._warm...` the
  same with ten steps of warm-up in every trial of both;
- `coverage_share`, `grid_coverage_share`: intervals that hold a position where both targets are equally fast, of the
  searches that say that they cross once, in the true direction;
- `half_width_percent`: median of sqrt(high / low) - 1; `closed_share`: intervals with two ends, of all searches;
- `right_share`, `wrong_share`: verdicts; wrong is whatever is neither right nor `undetermined`;
- `makespan_ratio`, of the kind `clean`: seconds with one node over those with four, geometric mean;
- `lattice.<what>` and `island.<what>`, of maps of 16 x 16 cells without and with an island of 2 to 25 cells:
  `measured_share` of the cells, `wrong_share` of the decided ones, and `found_share` of the islands: at least one of
  their cells was decided as it is.

`ok` means that every target is met. It takes a quarter of an hour.
"""

from __future__ import annotations

import heapq
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from analysis import crossovers
from analysis.adaptive import Range, Request, Search, advise
from analysis.lattice import Grid, ask_cells
from analysis.local import narrowed
from benchmarks.simulator import CHEAPEST_S, KINDS, LIMIT_STEPS, OCTAVE, Draw, Truth

Floats = npt.NDArray[np.float64]

SEARCHES = 100  # of each kind
MAPS = 100
CELLS = 16  # along each axis of a map
SEED = 2026
GRID_PASSES = 5
START, LONGEST_S = pd.Timestamp("2026-01-01", tz="UTC"), 86_400.0
WARM_UP_STEPS = 10  # of every trial of the program itself
NODES = 4

#: Kinds that cross once with a slope of 0.3 or more, those that never do, and their verdicts.
CLEAR = ("clean", "reversed", "knee", "corner", "staircase", "timeouts", "oom")
ONE_WINNER = {"always_baseline": "always_baseline", "always_challenger": "always_challenger"}
JUST_OUTSIDE = {"just_below": "always_challenger", "just_above": "always_baseline"}
TARGETS = {
    "clear.pairs_median": 25.0,
    "clear.pairs_p90": 37.0,
    "clear.saved_median_share": 0.70,
    "clear.saved_worst_tenth_share": 0.50,
    "clear.coverage_share": 0.93,
    "one_winner.pairs_median": 16.0,
    "always_baseline.right_share": 0.99,
    "always_challenger.right_share": 0.85,
    "just_below.right_share": 0.80,
    "one_winner.wrong_share": 0.01,
    "several.right_share": 0.95,
    "several.wrong_share": 0.0,
    "clean.makespan_ratio": 2.2,
    "lattice.measured_share": 0.45,
    "lattice.wrong_share": 0.005,
    "island.measured_share": 0.60,
    "island.wrong_share": 0.005,
}
AT_LEAST = ("coverage_share", "right_share", "makespan_ratio", "saved_median_share", "saved_worst_tenth_share")


@dataclass(frozen=True, kw_only=True)
class AnywhereDraw(Draw):
    """A draw whose crossing lies anywhere in the range."""

    def uniform(self, least: float, most: float) -> float:
        """Return a number between two others, in whichever order: what lies above the crossing may leave the range."""
        return super().uniform(min(least, most), max(least, most))

    def inside(self) -> float:
        """Return a position of the range."""
        return self.uniform(self.low, self.high)


class Machine:
    """A machine that answers one pair at a time, with the noise law of `simulator.py`."""

    def __init__(self, truth: Truth, rng: np.random.Generator) -> None:
        """Draw how noisy it is.

        Args:
            truth: The two targets without noise.
            rng: Chance.
        """
        self.truth, self._rng = truth, rng
        self._within, self._between = rng.uniform(0.02, 0.1), rng.uniform(0.01, 0.05)
        self._shared, self._drift = rng.uniform(0.25, 0.75), rng.uniform(0.003, 0.01)
        self._phase, self._turns = rng.uniform(0, 2 * np.pi, 2), rng.uniform(0.5, 2, 2)

    def measure(self, size: float, pass_index: int, *, steps: int, when: float) -> list[dict[str, Any]]:
        """Measure a pair.

        Args:
            size: The size.
            pass_index: Number of the pair.
            steps: Timed steps of each trial.
            when: How much of the sweep is over, from 0 to 1.

        Returns:
            Two rows. Beside what `analysis.crossovers` reads, `spent_s` and `warm_spent_s`: seconds of the timed steps,
            and with a warm-up.
        """
        u = math.log(size)
        deadline_s = min(LIMIT_STEPS * CHEAPEST_S * math.exp(self.truth.cpu_limit), LONGEST_S)
        rows = []
        typical = float(self.truth.cpu(np.array(u))), float(self.truth.gpu(np.array(u)))
        for target, times_s in self.times_s(typical, steps=steps, when=when).items():
            status, spent_s = "ok", float(times_s.sum())
            warm_s = spent_s + WARM_UP_STEPS * float(np.median(times_s))
            lasted_s = min(LIMIT_STEPS * float(times_s.mean()), LONGEST_S if target == "cpu" else deadline_s)
            if lasted_s > deadline_s:  # only the CPU does, as in `simulator.py`
                status, spent_s, warm_s, lasted_s = "timeout", deadline_s, deadline_s, deadline_s
            elif target == "gpu" and u > self.truth.gpu_largest:
                status, spent_s, warm_s = "oom", 0.0, 0.0
            rows.append(
                {
                    "size": size,
                    "target": target,
                    "pass_index": pass_index,
                    "status": status,
                    "step_times_s": times_s.tolist() if status == "ok" else None,
                    "deadline_s": deadline_s,
                    "started_at": START,
                    "finished_at": START + pd.Timedelta(seconds=lasted_s),
                    "spent_s": spent_s,
                    "warm_spent_s": warm_s,
                }
            )
        return rows

    def times_s(self, typical: tuple[float, float], *, steps: int, when: float) -> dict[str, Floats]:
        """Return the step times of both targets.

        Args:
            typical: ln(time) of a step of "cpu" and of "gpu", in units of `CHEAPEST_S`.
            steps: Steps of each trial.
            when: How much of the sweep is over, from 0 to 1.
        """
        rng, shared, found = self._rng, self._rng.standard_normal(), {}
        for side, target in enumerate(("cpu", "gpu")):
            slow = self._drift * math.sin(2 * np.pi * self._turns[side] * when + self._phase[side])
            own = math.sqrt(self._shared) * shared + math.sqrt(1 - self._shared) * rng.standard_normal()
            middle = math.log(CHEAPEST_S) + typical[side] + self._between * own + slow
            spikes = np.where(rng.random(steps) < 0.02, np.log(rng.uniform(1.5, 6, steps)), 0)
            found[target] = np.exp(middle + self._within * rng.standard_normal(steps) + spikes)
        return found


@dataclass(kw_only=True)
class Searched:
    """A search that has ended: its rows, its pairs, why it stopped, and how long it took with its nodes."""

    frame: pd.DataFrame
    pairs: int
    stop: str
    makespan_s: float


def search(machine: Machine, asked: Search) -> Searched:
    """Run a search on as many copies of a machine as it has nodes; each answer is followed by the next question."""
    rows: list[dict[str, Any]] = []
    under_way: list[tuple[float, int, Request, list[dict[str, Any]]]] = []
    clock_s, number = 0.0, 0
    while True:
        frame = pd.DataFrame(rows)
        advice = advise(frame, asked, pending=[request for _, _, request, _ in under_way])
        for request in advice.requests:
            answer = machine.measure(request.size, request.pass_index, steps=request.steps, when=number / 40)
            heapq.heappush(under_way, (clock_s + _seconds(answer), number, request, answer))
            number += 1
        if not under_way:
            return Searched(frame=frame, pairs=advice.pairs, stop=advice.stop, makespan_s=clock_s)
        clock_s, _, _, answer = heapq.heappop(under_way)
        rows += answer


def grid(machine: Machine, sizes: Floats, *, rng: np.random.Generator) -> pd.DataFrame:
    """Measure the octave grid: every pass all sizes in an order of its own; no larger size than one that failed."""
    rows: list[dict[str, Any]] = []
    steps, largest = int(rng.integers(5, 11)), math.inf
    for pass_index in range(GRID_PASSES):
        for place, size in enumerate(rng.permutation(sizes).tolist()):
            if size <= largest:
                when = (pass_index + place / len(sizes)) / GRID_PASSES
                answer = machine.measure(size, pass_index, steps=steps, when=when)
                rows += answer
                largest = min([largest, *(size for row in answer if row["status"] != "ok")])
    return pd.DataFrame(rows)


def _seconds(answer: list[dict[str, Any]]) -> float:
    return math.fsum(row["spent_s"] for row in answer)


@dataclass(kw_only=True)
class Tally:
    """Figures of one kind, one value a search."""

    pairs: list[int] = field(default_factory=list)
    saved: list[float] = field(default_factory=list)
    saved_warm: list[float] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)
    grid_held: list[bool] = field(default_factory=list)
    half: list[float] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    wrong: list[bool] = field(default_factory=list)
    makespan: list[float] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take in all searches of another kind, which were not all run with several nodes too."""
        for name, values in vars(other).items():
            if name != "makespan":
                getattr(self, name).extend(values)

    def figures(self, name: str) -> dict[str, float]:
        """Return the figures, each under the name of the kind."""
        found = {
            "pairs_median": float(np.median(self.pairs)),
            "pairs_p90": float(np.quantile(self.pairs, 0.9)),
            "saved_median_share": float(np.median(self.saved)),
            "saved_worst_tenth_share": float(np.quantile(self.saved, 0.1)),
            "saved_warm_median_share": float(np.median(self.saved_warm)),
            "saved_warm_worst_tenth_share": float(np.quantile(self.saved_warm, 0.1)),
            "right_share": float(np.mean(self.right)),
            "wrong_share": float(np.mean(self.wrong)),
        }
        if self.held:
            found["coverage_share"] = float(np.mean(self.held))
            found["grid_coverage_share"] = float(np.mean(self.grid_held))
            found["half_width_percent"] = 100 * float(np.median(np.expm1(self.half)))
            found["closed_share"] = len(self.half) / len(self.pairs)
        if self.makespan:
            found["makespan_ratio"] = float(np.exp(np.mean(self.makespan)))
        return {f"{name}.{what}": value for what, value in found.items()}


def score(kind: str, *, searches: int, seed: int, parallel: bool = False) -> Tally:
    """Search on machines of one kind, and compare with the truth.

    Args:
        kind: A key of `KINDS`.
        searches: Their number.
        seed: Of all that is random.
        parallel: Whether each search is also run with `NODES` nodes.

    Returns:
        What they cost and found.
    """
    tally = Tally()
    for index in range(searches):
        rng = np.random.default_rng([seed, index, sum(kind.encode())])
        octaves, first = int(rng.integers(10, 13)), int(rng.integers(2, 6))
        sizes = np.exp2(np.arange(first, first + octaves + 1))
        truth = KINDS[kind](AnywhereDraw(low=float(np.log(sizes[0])), high=float(np.log(sizes[-1])), rng=rng))
        asked = Search(
            axis="size",
            range=Range(low=float(sizes[0]), high=float(sizes[-1]), whole=True),
            baseline="cpu",
            challenger="gpu",
            seed=index,
        )
        machine = Machine(truth, rng)
        found = search(machine, asked)
        (row,) = narrowed(found.frame, axis="size", baseline="cpu", challenger="gpu").to_dict("records")
        whole = grid(machine, sizes, rng=rng)
        (usual,) = crossovers(whole, axis="size", baseline="cpu", challenger="gpu").to_dict("records")
        right = _is_right(row, truth, kind)
        tally.pairs.append(found.pairs)
        tally.saved.append(1 - found.frame["spent_s"].sum() / whole["spent_s"].sum())
        tally.saved_warm.append(1 - found.frame["warm_spent_s"].sum() / whole["warm_spent_s"].sum())
        tally.right.append(right)
        tally.wrong.append(not right and row["verdict"] != "undetermined")
        if len(truth.changes) == 1 and right:
            tally.held.append(_holds(row, truth))
            if row["low"] < row["high"]:
                tally.half.append(math.log(row["high"] / row["low"]) / 2)
        if len(truth.changes) == 1 and _is_right(usual, truth, kind):
            tally.grid_held.append(_holds(usual, truth))
        if parallel:
            many = search(Machine(truth, rng), _with_nodes(asked, NODES))
            tally.makespan.append(math.log(found.makespan_s / many.makespan_s))
    return tally


def _with_nodes(asked: Search, nodes: int) -> Search:
    return Search(**{**vars(asked), "nodes": nodes})


def _is_right(row: dict[Any, Any], truth: Truth, kind: str) -> bool:
    if not truth.changes:
        return bool(row["verdict"] == {**ONE_WINNER, **JUST_OUTSIDE, "tie": "tie"}[kind])
    found = row["changes"] if row["verdict"] == "several" else [row]
    return [one["direction"] for one in found] == [change.direction for change in truth.changes]


def _holds(row: dict[Any, Any], truth: Truth) -> bool:
    (change,) = truth.changes
    return bool(math.log(row["low"]) <= change.last and change.first <= math.log(row["high"]))


@dataclass(frozen=True, kw_only=True)
class Map:
    """The truth of 16 x 16 cells: their log ratio, of shape (y, x), and which of them are an island."""

    ratio: Floats
    island: npt.NDArray[np.bool_]


def draw_map(rng: np.random.Generator, *, island: bool) -> Map:
    """Draw a launch floor against work that grows with both sizes, and perhaps an island of the other winner in it."""
    x, y = np.meshgrid(np.arange(CELLS), np.arange(CELLS))
    power, part = rng.uniform(0.4, 1.1, 2), rng.uniform(0.3, 0.7)
    through = rng.uniform(0.2, 0.8, 2) * (CELLS - 1)
    work = OCTAVE / 2 * (power[0] * (x - through[0]) + power[1] * (y - through[1]))  # half an octave a cell
    ratio = np.log(1 - part + part * np.exp(work)) - work
    inside = np.zeros((CELLS, CELLS), dtype=np.bool_)
    while island and not inside.any():
        wide, high = rng.integers(1, 6, 2)
        left, bottom = rng.integers(0, CELLS - wide + 1), rng.integers(0, CELLS - high + 1)
        there = ratio[bottom : bottom + high, left : left + wide]
        if there.size >= 2 and np.abs(there).min() > 0.3 and np.ptp(np.sign(there)) == 0:
            inside[bottom : bottom + high, left : left + wide] = True
    return Map(ratio=np.where(inside, -np.sign(ratio) * rng.uniform(0.2, 0.6), ratio), island=inside)


def score_maps(*, maps: int, seed: int, island: bool) -> dict[str, float]:
    """Explore maps, and compare with the truth.

    Args:
        maps: Their number.
        seed: Of all that is random.
        island: Whether each has an island.

    Returns:
        Figures by name.
    """
    measured, wrong, found = [], [], []
    values = tuple(np.exp2(np.arange(CELLS) / 2).tolist())
    grid = Grid(axes=("x", "y"), x=values, y=values, baseline="cpu", challenger="gpu", nodes=NODES)
    for index in range(maps):
        rng = np.random.default_rng([seed, index, island])
        truth = draw_map(rng, island=island)
        cells = explore(Machine(Truth(cpu=np.zeros_like, gpu=np.zeros_like), rng), truth, grid)
        state = cells["state"].map({"baseline": 1, "challenger": -1}).fillna(0).to_numpy().reshape(CELLS, CELLS)
        measured.append(float((cells["cell"] == "measured").mean()))
        wrong.append(float((state != np.sign(truth.ratio))[state != 0].mean()))
        found.append(bool((truth.island & (state == np.sign(truth.ratio))).any()))
    figures = {"measured_share": float(np.mean(measured)), "wrong_share": float(np.mean(wrong))}
    return figures | ({"found_share": float(np.mean(found))} if island else {})


def explore(machine: Machine, truth: Map, grid: Grid) -> pd.DataFrame:
    """Measure a map until nothing more is asked; each batch is waited for."""
    rows: list[dict[str, Any]] = []
    while (answer := ask_cells(pd.DataFrame(rows), grid)).requests:
        for request in answer.requests:
            ratio = float(truth.ratio[grid.y.index(request.y), grid.x.index(request.x)])
            when = len(rows) / (2 * CELLS**2)
            for target, times_s in machine.times_s((0.0, ratio), steps=request.steps, when=when).items():
                rows.append(
                    {
                        "x": request.x,
                        "y": request.y,
                        "target": target,
                        "pass_index": request.pass_index,
                        "status": "ok",
                        "step_times_s": times_s.tolist(),
                    }
                )
    return answer.cells


def main() -> None:
    """Search on machines of every kind and print."""
    from benchmarks.figures import conclude  # imports torch, which nothing else here needs

    figures: dict[str, float] = {}
    clear, winner = Tally(), Tally()
    for kind in (*CLEAR, "shallow", "several", *ONE_WINNER, *JUST_OUTSIDE, "tie"):
        tally = score(kind, searches=SEARCHES, seed=SEED, parallel=kind == "clean")
        figures |= tally.figures(kind)
        if kind in CLEAR:
            clear.add(tally)
        if kind in ONE_WINNER:
            winner.add(tally)
    figures |= clear.figures("clear") | winner.figures("one_winner")
    for island in (False, True):
        maps = score_maps(maps=MAPS, seed=SEED, island=island)
        figures |= {f"{'island' if island else 'lattice'}.{what}": figure for what, figure in maps.items()}
    missed = [key for key, target in TARGETS.items() if not meets(key, figures.get(key, math.nan), target)]
    for key in missed:
        print(f"missed: {key} is {figures.get(key, math.nan):.4g}, target {TARGETS[key]:g}", file=sys.stderr)
    conclude("adaptive", ok=not missed, figures=figures, targets=TARGETS)


def meets(key: str, figure: float, target: float) -> bool:
    """Whether a figure is on the right side of its target."""
    return figure >= target if key.rpartition(".")[2] in AT_LEAST else figure <= target


if __name__ == "__main__":
    main()
