"""The best of several ways to run against the best of several others: which variant sets the bar at each size.

A GPU that beats one CPU thread has not beaten the CPU. The fastest of several measured times, though, is partly the
luckiest: of ten equal variants one always looks faster than a lone rival. So the variant that stands for its side in
a pass is chosen by other passes, and its time in that pass, which had no part in the choice, is what is compared
(cross-validation: Stone 1974, "Cross-validatory choice and assessment of statistical predictions").

The passes judge each other in two halves, and not each by all others: of equal variants the choices would then lean on
one another. With eight of them and five passes that makes the variance of a mean 1.9 times that of a lone variant, of
which the spread between the passes shows 0.8; in halves they are 1.3 and 0.94, and the band still errs at about 2.5 %
of the sizes to either side, as it is meant to. A wrong choice makes a side look slower, never faster: with a spread of
3 % between processes by 0.8 % at most, where choosing by all other passes would make it 0.7 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.outcomes import RESOLUTION_S, TICKS
from analysis.question import Bools, Floats, Ints
from analysis.rounding import shown
from analysis.step_times import reduce_step_times, trainings_at_once
from sweeps.ladder import HEADLINE

#: What `chosen_by` says: by what a variant was found to be the fastest; empty where there was nothing to choose from.
BY_OTHERS = "other passes"
BY_ITSELF = "same pass"
NOT_TRIED = ("unavailable", "skipped_larger")  # statuses of a trial that never started
ADDED = ("variant", "chosen_by")  # columns that the answer has and the frame has not
NONE_FINISHED = "none finished"
LEAST_PASSES = 2  # in which a variant must have finished to be chosen in one by the other


def best_of(
    frame: pd.DataFrame,
    *,
    axis: str,
    sides: Mapping[str, Sequence[str]],
    group_by: Sequence[str] = (),
    variants: Sequence[str] = (),
) -> pd.DataFrame:
    """Keep of each side, at each size and in each pass, the rows of the variant that sets the bar there.

    That is the one with the lowest mean log median in the other half of the passes of that size, where every second
    pass makes a half; contended trials count only where two clean ones are lacking. Where no variant finished in two
    passes, the pass itself has to tell, and its winner is flattered: `chosen_by` says so. No rivals are variants that
    finished in no pass of that size, in one where another did in more, or in less than half of those in which another
    did. Where the variant did not run in a pass, its side has nothing to compare in that pass: another variant's time
    would be noise of another kind.

    Where no variant of a side finished, one that failed stands for it, so that a time-out still tells what it can: one
    that ended otherwise than by time-out before one that timed out, a shorter limit before a longer one, and one that
    was never started only where none was.

    Rows without a pass are put into passes of their own, by an order that does not depend on their times.

    Args:
        frame: One row a trial: `<axis>`, `target`, `status`, `step_times_s` (a list, seconds); used if present:
            `pass_index`, `rung`, `interference`, `deadline_s`, `resolution_s`. Rows are as they were measured, not
            repeated for the values of a lever that is among the variants.
        axis: Column of sizes.
        sides: By the name of each side, the targets that belong to it.
        group_by: Columns that split the frame into groups.
        variants: Columns whose values make variants of a target; null means nothing there.

    Returns:
        Rows of the frame, in its order, of the whole step and of one variant a group, size, pass and side (earlier
        attempts and copies of its trial stay, for `crossovers` to settle). `target` is the name of the side; added are
        `variant`, such as "cpu-4" or "gpu, transfer pinned", and `chosen_by`: "other passes", "same pass", or empty
        where there was nothing to choose from. `crossovers` and `summarise` work on it unchanged.

    Raises:
        ValueError: If a column is missing or has two meanings, a target belongs to two sides, or no row has a target
            that a side names.
    """
    _check(frame, [axis, *group_by, *variants], sides)
    if both := [name for name in (axis, *group_by) if name in (*variants, *ADDED)]:
        raise ValueError(f"{both[0]!r} cannot tell sizes or groups apart: it is a variant, or what names one")
    side_of = {target: side for side, targets in sides.items() for target in targets}
    side = frame["target"].astype(object).map(side_of)
    asked = side.notna().to_numpy()
    if "rung" in frame.columns:
        asked = asked & (frame["rung"] == HEADLINE).to_numpy(dtype=bool, na_value=False)
    rows = frame[asked].reset_index(drop=True)
    names, number = _variants(rows, list(side_of), variants)
    rows = rows.assign(
        target=pd.Categorical(side[asked], categories=list(sides)), variant=pd.Series(names, dtype="str")
    )
    if rows.empty:
        return rows.assign(chosen_by=pd.Series(dtype="str"))
    ways = _number(rows, [*group_by, axis, "target"], number)
    runner, chosen_by = _choose(ways)
    kept = ways.runner == runner[ways.slot]
    best: pd.DataFrame = rows[kept].reset_index(drop=True)
    return best.assign(chosen_by=pd.Series(chosen_by[ways.place[kept]], dtype="str"))


def bars(best: pd.DataFrame, *, axis: str, group_by: Sequence[str] = ()) -> pd.DataFrame:
    """Name the variants that set the bar at each size.

    Args:
        best: What `best_of` returned.
        axis: Column of sizes.
        group_by: The columns that it was asked with.

    Returns:
        One row a group, size and side, sorted so: the columns of `group_by`, the axis, `target` (the side), `variants`
        (such as "cpu-4" or "cpu-4 (2 of 3 passes), cpu", the most frequent first; "none finished"; and a word where
        the choice was made by the very times that are compared) and `passes`, in which one of them set the bar.
    """
    keys = [*group_by, axis, "target"]
    place = best.groupby(keys, dropna=False, observed=True).ngroup()
    places = best[keys].assign(place=place).drop_duplicates("place").sort_values("place", ignore_index=True)
    finished = best.assign(place=place)[best["status"] == "ok"]
    loose = "pass_index" not in best.columns or bool(best["pass_index"].isna().all())
    if not loose:  # attempts and copies of one trial are one pass
        finished = finished.drop_duplicates(["place", "pass_index"])
    number = finished.groupby(["place", "variant", "chosen_by"], as_index=False).size()
    number = number.sort_values(["place", "size", "variant"], ascending=[True, False, True])
    found: list[list[tuple[str, int]]] = [[] for _ in places["place"]]
    flattered = set(number.loc[number["chosen_by"] == BY_ITSELF, "place"])
    for at, variant, count in zip(number["place"], number["variant"], number["size"], strict=True):
        found[at].append((str(variant), int(count)))
    texts = [_in_words(own, loose=loose, flattered=at in flattered) for at, own in enumerate(found)]
    passes = [sum(count for _, count in own) for own in found]
    return places[keys].assign(variants=pd.Series(texts, dtype="str"), passes=pd.Series(passes, dtype="int64"))


def _in_words(found: Sequence[tuple[str, int]], *, loose: bool, flattered: bool) -> str:
    """Name the variants of one place, each with its number of passes, the most frequent first."""
    if not found:
        return NONE_FINISHED
    names, counts = [name for name, _ in found], [count for _, count in found]
    if len(names) > 1:
        names[0] += f" ({counts[0]} of {sum(counts)} {'runs' if loose else 'passes'})"
    comma = "; " if any("," in name for name in names) else ", "
    doubt = f" (chosen by the very {'run' if loose else 'pass'} that is compared)" if flattered else ""
    return comma.join(names) + doubt


def _check(frame: pd.DataFrame, columns: Sequence[str], sides: Mapping[str, Sequence[str]]) -> None:
    if missing := [name for name in (*columns, "target", "status", "step_times_s") if name not in frame.columns]:
        present = ", ".join(map(str, frame.columns))
        raise ValueError(f"the frame has no column {', '.join(map(repr, missing))}; it has: {present}")
    named = [target for targets in sides.values() for target in targets]
    if twice := [target for target in dict.fromkeys(named) if named.count(target) > 1]:
        raise ValueError(f"target {twice[0]!r} is named twice among the sides: it can stand for one side, and once")
    column = frame["target"]
    declared = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column.dropna().unique()
    known = set(declared)
    # As for two targets: a name that no row has is a mistake only if the frame has targets that nobody asked about.
    if (unknown := [target for target in named if target not in known]) and not known <= set(named):
        present = ", ".join(sorted(map(str, known)))
        raise ValueError(f"no target is named {unknown[0]!r}; the frame has: {present}")


def _variants(rows: pd.DataFrame, targets: Sequence[str], columns: Sequence[str]) -> tuple[list[str], Ints]:
    """Name the variant of each row, and number the variants; the number settles which of two equals is taken."""
    keys = rows[["target", *columns]]
    code = keys.groupby(list(keys), dropna=False, observed=True, sort=False).ngroup()
    distinct = keys[~code.duplicated()].to_dict("records")
    texts = [
        ", ".join([str(row["target"]), *(f"{name} {shown(row[name])}" for name in columns if not pd.isna(row[name]))])
        for row in distinct
    ]
    places = [(targets.index(row["target"]), text) for row, text in zip(distinct, texts, strict=True)]
    rank = {text: number for number, (_, text) in enumerate(sorted(set(places)))}
    return [texts[at] for at in code], np.array([rank[text] for text in texts], dtype=np.int64)[code]


@dataclass(frozen=True, kw_only=True)
class _Ways:
    """The rows as numbers, one value a row unless said.

    A *place* is a group, size and side; a *slot* a place in a pass; a *runner* a variant in a place. Each kind is
    numbered through in the order of the places.

    Attributes:
        place, slot, runner: Numbers.
        slot_place, runner_place: The place of each slot, and of each runner.
        loose: Of each place, whether none of its rows names a pass.
        usable: Whether the row has a time.
        clean: Whether nothing else is known to have used the machine.
        value: ln of the median step time in seconds, or of the shortest time that the row's clock can tell.
        failure: 0 for a trial that failed, 1 for one that timed out, 2 for one that was never started.
        deadline_s: Limit of the trial, NaN where unknown.
    """

    place: Ints
    slot: Ints
    runner: Ints
    slot_place: Ints
    runner_place: Ints
    loose: Bools
    usable: Bools
    clean: Bools
    value: Floats
    failure: Ints
    deadline_s: Floats


def _number(rows: pd.DataFrame, keys: Sequence[str], variant: Ints) -> _Ways:
    place = np.asarray(rows.groupby(list(keys), dropna=False, observed=True).ngroup(), dtype=np.int64)
    runners, runner = np.unique(place * (variant.max() + 1) + variant, return_inverse=True)
    ok = rows["status"].eq("ok").to_numpy(dtype=bool, na_value=False)
    times = reduce_step_times(rows["step_times_s"].to_numpy(dtype=object), ok)
    at_once = trainings_at_once(rows)
    deadline_s, named = _numbers(rows, "deadline_s") / at_once, _named_passes(rows)
    passed = named
    if (named < 0).any():
        order = np.lexsort([deadline_s, times.checksum, times.median_s, runner])
        own = _shuffled(rows[[*keys, "variant"]], order, runner)
        passed = np.where(named < 0, named.max() + 1 + own, named)
    slots, slot = np.unique(place * (passed.max() + 1) + passed, return_inverse=True)
    resolution_s = _numbers(rows, "resolution_s")
    shortest_s = np.where(np.isnan(resolution_s), TICKS * RESOLUTION_S, resolution_s)
    status, untimed = rows["status"], np.isnan(times.median_s)
    disturbed = rows["interference"].eq("contended") if "interference" in rows.columns else pd.Series(False, rows.index)
    return _Ways(
        place=place,
        slot=slot,
        runner=runner,
        slot_place=slots // (passed.max() + 1),
        runner_place=runners // (variant.max() + 1),
        loose=np.bincount(place, weights=named >= 0) == 0,
        usable=~untimed,
        clean=~disturbed.to_numpy(dtype=bool, na_value=False),
        value=np.log(np.fmax(np.fmax(times.median_s, shortest_s) / at_once, np.finfo(np.float64).tiny)),
        failure=np.where(status.isin(NOT_TRIED), 2, np.where(status.isin(["timeout"]), 1, 0)),
        deadline_s=deadline_s,
    )


def _named_passes(rows: pd.DataFrame) -> Ints:
    """Number of each row's pass, -1 where it has none."""
    if "pass_index" not in rows.columns:
        return np.full(len(rows), -1, dtype=np.int64)
    return np.asarray(pd.factorize(rows["pass_index"], sort=True)[0], dtype=np.int64)


def _shuffled(keys: pd.DataFrame, order: Ints, runner: Ints) -> Ints:
    """Number the rows of each runner from 0 in an order that has nothing to do with their times.

    Sorted by time and then shuffled by a hash of where they stand, so that neither the order of the rows in the frame
    nor the unit of the times matters.

    Args:
        keys: What tells runners apart.
        order: The rows by runner and time.
        runner: The runner of each row.
    """
    ordered = runner[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    chance = pd.util.hash_pandas_object(keys.iloc[order].assign(rank_=rank), index=False).to_numpy()
    number = np.empty_like(runner)
    number[order[np.lexsort([chance, ordered])]] = rank
    return number


def _choose(ways: _Ways) -> tuple[Ints, npt.NDArray[np.object_]]:
    """Choose a runner for each slot; and say, for each place, by what it was chosen."""
    n_places, n_runners = len(ways.loose), len(ways.runner_place)
    # A contest is a slot with one of the runners of its place: every one of them, whether it ran in that pass or not.
    first_runner = np.searchsorted(ways.runner_place, np.arange(n_places))
    entrants = np.bincount(ways.runner_place, minlength=n_places)[ways.slot_place]
    first_contest = np.cumsum(entrants) - entrants
    slot = np.repeat(np.arange(len(entrants)), entrants)
    runner = np.arange(len(slot)) - first_contest[slot] + first_runner[ways.slot_place[slot]]
    place = ways.slot_place[slot]
    contest = first_contest[ways.slot] + ways.runner - first_runner[ways.place]

    def per_runner(values: Floats | Bools) -> Floats:
        return np.asarray(np.bincount(runner, weights=values, minlength=n_runners), dtype=np.float64)

    def has(chosen: Bools) -> Bools:
        return np.asarray(np.bincount(contest[chosen], minlength=len(slot)) > 0)

    finished = per_runner(has(ways.usable))
    enough_clean = per_runner(has(ways.usable & ways.clean)) >= LEAST_PASSES
    counted = ways.usable & (ways.clean | ~enough_clean[ways.runner])
    timed = has(counted)
    number = np.bincount(contest[counted], minlength=len(slot))
    value = np.bincount(contest[counted], weights=ways.value[counted], minlength=len(slot)) / np.maximum(number, 1)
    elsewhere = _judged_elsewhere(runner, _halves(ways)[slot], timed, value)

    most = np.zeros(n_places)
    np.maximum.at(most, ways.runner_place, finished)
    half = np.where(ways.loose, 0, most / 2)  # repeats that are no passes are not shared: their numbers may differ
    needed = np.where(most < LEAST_PASSES, np.minimum(most, 1), np.maximum(LEAST_PASSES, half))
    rival = finished >= needed[ways.runner_place]

    failure, limit_s = np.full(len(slot), 3), np.full(len(slot), np.nan)
    np.minimum.at(failure, contest, ways.failure)
    np.fmin.at(limit_s, contest, ways.deadline_s)
    own = np.where(timed, value, np.nan)
    by_time = np.where(most[place] < LEAST_PASSES, own, elsewhere)
    rank = np.where(most[place] > 0, ~rival[runner], failure)
    score = np.where(most[place] > 0, by_time, limit_s)
    order = np.lexsort([runner, score, rank, slot])
    choices = np.bincount(ways.runner_place[rival], minlength=n_places)
    by = np.where(most < LEAST_PASSES, BY_ITSELF, BY_OTHERS).astype(object)
    return runner[order[first_contest]], np.where((choices < 2) | (most == 0), "", by)


def _halves(ways: _Ways) -> Ints:
    """Half of its place's passes that each slot belongs to: every second one."""
    rank = np.arange(len(ways.slot_place)) - np.searchsorted(ways.slot_place, ways.slot_place)
    return np.asarray(rank % 2, dtype=np.int64)


def _judged_elsewhere(runner: Ints, half: Ints, timed: Bools, value: Floats) -> Floats:
    """Mean of each contest's runner in the half of the passes that the contest is not in.

    Where the runner has no time there, that in all passes but this one; NaN where there is none either.
    """
    own, other = 2 * runner + half, 2 * runner + 1 - half
    places = 2 * (int(runner.max()) + 1)
    number, total = (np.bincount(own, weights=weights, minlength=places) for weights in (timed, value))
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = total[other] / number[other]
        left_out = (total[own] + total[other] - value) / (number[own] + number[other] - timed)
    return np.where(number[other] > 0, apart, np.where(number[own] > timed, left_out, np.nan))


def _numbers(rows: pd.DataFrame, column: str) -> Floats:
    if column not in rows.columns:
        return np.full(len(rows), np.nan)
    return np.asarray(pd.to_numeric(rows[column], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan))
