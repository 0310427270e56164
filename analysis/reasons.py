"""Why a verdict is what it is, what weakens it and what to measure next, in sentences without jargon."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from analysis.censoring import BASELINE, CHALLENGER
from analysis.evidence import Evidence
from analysis.outcomes import NOT_RUN, why_no_value
from analysis.question import Question
from analysis.ratios import LEAST_CLEAN
from analysis.rounding import Scale, listed, number
from analysis.verdict import TIE, Cause, Change, Conclusion, Stop, Verdict

LISTED = 6  # sizes named in one sentence; further ones are counted
LEAST_PAIRS = 3  # with fewer, repeat before adding sizes
OCTAVE = math.log(2) * (1 - 1e-9)
NARROWER = "for a narrower answer"


def explain(evidence: Evidence, conclusion: Conclusion, question: Question) -> list[str]:
    """Give the reasons for a verdict: why, what to measure next, what is missing, how it was computed.

    Args:
        evidence: What is known of the group.
        conclusion: The verdict on it.
        question: What is asked.

    Returns:
        Sentences without a full stop, the most important first.
    """
    words = _Words(question=question)
    sentences = [_why(evidence, conclusion, words)]
    sentences += _next_steps(evidence, conclusion, words)
    sentences += _not_compared(evidence, words)
    sentences += _known_signs(evidence)
    sentences += _memory(evidence, words)
    sentences += _warnings(evidence, words)
    sentences += _basis(evidence)
    return sentences


@dataclass(frozen=True, kw_only=True)
class _Words:
    """How the two targets are spoken of; with a margin, "faster" means faster by that much."""

    question: Question

    @property
    def both(self) -> str:
        return f"{self.question.baseline} and {self.question.challenger}"

    @property
    def names(self) -> tuple[str, str]:
        return self.question.baseline, self.question.challenger

    def faster(self, state: int) -> str:
        percent = f"{100 * self.question.margin:.3g} %"
        if self.question.margin == 0:
            return f"{self.question.baseline if state == BASELINE else self.question.challenger} is faster"
        amount = f"at least {percent}" if state == CHALLENGER else f"not {percent}"
        return f"{self.question.challenger} is {amount} faster"


def _why(evidence: Evidence, conclusion: Conclusion, words: _Words) -> str:
    stops = evidence.stops
    if not stops:
        return _nothing_compared(evidence, words)
    whole = _range(stops[0].size, stops[-1].size)
    change = conclusion.changes[0] if conclusion.changes else None
    match conclusion.verdict:
        case Verdict.CROSSES if change:
            below, above = _ends(change, stops)
            return (
                f"{words.faster(below.state)} up to {number(below.size)}, "
                f"and {words.faster(above.state)} from {number(above.size)} on"
            )
        case Verdict.SEVERAL:
            pairs = [_ends(one, stops) for one in conclusion.changes]
            gaps = [f"between {number(low.size)} and {number(high.size)}" for low, high in pairs]
            if len(gaps) > LISTED:
                return f"the winner changes {len(gaps)} times, the first time {gaps[0]} and the last time {gaps[-1]}"
            return f"the winner changes {len(conclusion.changes)} times: {', '.join(gaps)}"
        case Verdict.TIE:
            within, where = f"{100 * TIE:.0f} %", f"at every size where both ran ({whole})"
            if words.question.margin:
                faster = f"{words.question.challenger} is {100 * words.question.margin:.3g} % faster"
                return f"{faster}, give or take {within}, {where}"
            return f"{words.both} are equal within {within} {where}"
        case Verdict.ALWAYS_BASELINE | Verdict.ALWAYS_CHALLENGER:
            if len(stops) == 1:
                return f"{words.faster(stops[0].state)} at {number(stops[0].size)}, the only size compared"
            return f"{words.faster(stops[0].state)} at both ends of the range where both ran ({whole})"
    return _undetermined(evidence, conclusion, words, whole)


def _undetermined(evidence: Evidence, conclusion: Conclusion, words: _Words, whole: str) -> str:
    stops, end = evidence.stops, conclusion.open_end
    decided = [stop for stop in stops if stop.state]
    if end:
        faster = words.faster(decided[0].state)
        toward = -1 if conclusion.cause is Cause.OPEN_ABOVE else 1
        bound = Scale.of(evidence.sizes).show(words.question.size_at(end.position), toward)
        last = number(stops[end.stop].size)
        if conclusion.cause is Cause.OPEN_ABOVE:
            until = f"{faster} up to {last}, then too close to call up to {number(stops[-1].size)}"
            return f"{until}: a change, if there is one, lies above {bound}"
        since = f"{faster} from {last} on, but too close to call from {number(stops[0].size)} up to there"
        return f"{since}: a change, if there is one, lies below {bound}"
    if conclusion.cause is Cause.OPEN_BOTH:
        sizes = _sizes([stop.size for stop in decided])
        return (
            f"{words.faster(decided[0].state)} at {sizes}, but both ends of the range ({whole}) are too close to call"
        )
    if conclusion.cause is Cause.DIP:
        odd = [stops[index] for index in conclusion.doubtful]
        most = 100 * math.expm1(max(abs(stop.value) for stop in odd))
        sizes, verb = _sizes([stop.size for stop in odd]), "disagrees" if len(odd) == 1 else "disagree"
        return (
            f"{_plural('size', len(odd))} {sizes} {verb} with the neighbours, "
            f"by {most:.2g} % or less, which is too little to be sure"
        )
    return f"{words.both} are too close to call at every size where both ran ({whole})"


def _nothing_compared(evidence: Evidence, words: _Words) -> str:
    absent = [
        name for side, name in enumerate(words.names) if all(outcome[side] == NOT_RUN for outcome in evidence.outcomes)
    ]
    if absent:
        return f"nothing to compare: there is no trial of {' and none of '.join(absent)}"
    return f"nothing to compare: at no size do both {words.both} have a time that counts"


def _next_steps(evidence: Evidence, conclusion: Conclusion, words: _Words) -> list[str]:
    stops = evidence.stops
    undecided = [stop for stop in stops if not stop.state]
    steps = []
    if conclusion.verdict is Verdict.UNDETERMINED and stops:
        steps.append(_where_to_repeat(conclusion, stops))
    elif undecided and conclusion.verdict is not Verdict.TIE:
        one = len(undecided) == 1
        steps.append(
            f"{_plural('size', len(undecided))} {_sizes([stop.size for stop in undecided])} "
            f"{'is' if one else 'are'} too close to call; measure more pairs there"
        )
    if conclusion.verdict in (Verdict.CROSSES, Verdict.SEVERAL):
        for change in conclusion.changes:
            steps += _where_to_add(change, evidence, words)
    return steps


def _where_to_repeat(conclusion: Conclusion, stops: list[Stop]) -> str:
    low, high = number(stops[0].size), number(stops[-1].size)
    match conclusion.cause:
        case Cause.DIP:
            return f"repeat {_sizes([stops[index].size for index in conclusion.doubtful])}"
        case Cause.OPEN_ABOVE:
            return f"measure more pairs at {high}, or larger sizes"
        case Cause.OPEN_BELOW:
            return f"measure more pairs at {low}, or smaller sizes"
    ends = low if low == high else f"{low} and {high}"
    return f"measure more pairs at {ends}, or a wider range of sizes"


def _where_to_add(change: Change, evidence: Evidence, words: _Words) -> list[str]:
    """Advice to fill the gaps of a bracket: it narrows the interval, and is the only cure for a jump."""
    below, above = _ends(change, evidence.stops)
    inside = [stop for stop in evidence.stops if below.position <= stop.position <= above.position]
    pairs = dict(zip(evidence.sizes, evidence.pairs, strict=True))
    middles = _middles(inside, evidence, words.question)
    text = ""
    if middles:
        text = (
            f"add a size in the middle of {'the' if len(middles) == 1 else 'each'} gap "
            f"between {number(below.size)} and {number(above.size)} "
            f"(e.g. {', '.join(map(Scale.of(evidence.sizes).show, middles))})"
        )
    if change.jump:
        gap = f"between {number(below.size)} and {number(above.size)}"
        jump = f"the curve jumps {gap}, and no smooth curve says where"
        return [f"{jump}: {text}" if text else jump]
    if change.sparse:
        far = "the sizes lie too far apart for a curve between them to say where"
        return [f"{far}: {text}" if text else far]
    wide = above.position - below.position >= OCTAVE
    repeated = all(pairs[stop.size] >= LEAST_PAIRS for stop in inside if stop.measured)
    return [f"{NARROWER} {text}"] if text and wide and repeated else []


def _middles(inside: list[Stop], evidence: Evidence, question: Question) -> list[float]:
    middles = []
    for left, right in pairwise(inside):
        middle = question.size_at((left.position + right.position) / 2)
        middle = float(round(middle)) if evidence.whole else float(f"{middle:.3g}")
        if left.size < middle < right.size:
            middles.append(middle)
    return middles


def _not_compared(evidence: Evidence, words: _Words) -> list[str]:
    missing = [index for index, informed in enumerate(evidence.informed) if not informed]
    ran = [[outcome[side] != NOT_RUN for outcome in evidence.outcomes] for side in (0, 1)]
    if not missing or not all(map(any, ran)):
        return []
    causes: dict[str, list[float]] = {}
    for index in missing:
        causes.setdefault(_cause(index, evidence, words), []).append(evidence.sizes[index])
    told = "; ".join(f"{cause} at {_sizes(sizes)}" for cause, sizes in causes.items())
    compared = len(evidence.sizes) - len(missing)
    return [f"compared on {compared} of {len(evidence.sizes)} {_plural('size', len(evidence.sizes))}: {told}"]


def _cause(index: int, evidence: Evidence, words: _Words) -> str:
    """Why a size could not be compared."""
    parts = []
    for side, name in enumerate(words.names):
        outcome = evidence.outcomes[index][side]
        if outcome == NOT_RUN:
            parts.append(f"{name} did not run")
        elif not evidence.finished[index][side]:
            ended = f"no trial of {name} is valid" if outcome == "invalid" else why_no_value(name, outcome)
            parts.append(ended)
        elif evidence.finished[index][side] == evidence.too_quick[index][side]:
            parts.append(f"{name} is too quick for the clock")
    return " and ".join(parts) or f"{words.both} finished in no common pass"


def _known_signs(evidence: Evidence) -> list[str]:
    known: dict[str, list[float]] = {}
    for size, text in zip(evidence.sizes, evidence.known, strict=True):
        if text:
            known.setdefault(text, []).append(size)
    return [
        f"{text} at {_sizes(sizes)}: who is faster there is certain, by how much is not known"
        for text, sizes in known.items()
    ]


def _memory(evidence: Evidence, words: _Words) -> list[str]:
    sentences = []
    for side, name in enumerate(words.names):
        full = [size for size, number in zip(evidence.sizes, evidence.ooms, strict=True) if number[side]]
        if not full:
            continue
        fits = [
            size
            for size, number in zip(evidence.sizes, evidence.finished, strict=True)
            if number[side] and size < full[0]
        ]
        sentence = f"{name} ran out of memory at {_sizes(full)}"
        if fits:
            sentence = f"{name} does not fit in memory above {number(fits[-1])}"
        if any(stop.size > full[0] for stop in evidence.stops):
            sentence += "; larger sizes at which it did run are counted"
        sentences.append(sentence)
    return sentences


def _warnings(evidence: Evidence, words: _Words) -> list[str]:
    sentences = []
    for side, name in enumerate(words.names):
        mixed = [
            size
            for size, timeouts, usable in zip(evidence.sizes, evidence.timeouts, evidence.finished, strict=True)
            if timeouts[side] and usable[side]
        ]
        if mixed:
            sentences.append(f"{name} timed out in some passes at {_sizes(mixed)}: its slow trials are missing there")
    unit = "trial" if evidence.unpaired else "pair"
    counts = (
        (evidence.contended_out, unit, "on a busy machine left out"),
        (evidence.contended_in, unit, f"on a busy machine used, for lack of {LEAST_CLEAN} clean ones"),
        (evidence.unmatched, "finished trial", "left out, for lack of a partner in the same pass"),
        (evidence.merged, "value", "made of several trials of one pass: their mean counts, once"),
        (evidence.retried, "failed trial", "tried again with success"),
        (evidence.unsized, "row", f"without a value of {words.question.axis} left out"),
    )
    return sentences + [f"{_count(number, noun)} {what}" for number, noun, what in counts if number]


def _basis(evidence: Evidence) -> list[str]:
    used = [number for number in evidence.pairs if number]
    if not used:
        return []
    unit = "trial" if evidence.unpaired else "pair"
    few, many = min(used), max(used)
    number = _count(few, unit) if few == many else f"{few} to {many} {unit}s"
    sentences = []
    if evidence.unpaired:
        sentences.append("not paired: the trials of the two targets were not run back to back on one machine")
    if evidence.assumed:
        known = "too few repeats" if max(evidence.pairs, default=0) > 1 else "no repetition"
        sentences.append(
            f"{known}: assumed spread between runs, so this is provisional; 3 passes or more would measure it"
        )
    sentences.append(f"{number} a size; {100 * evidence.drift:.3g} % is allowed for slow drift")
    return sentences


def _ends(change: Change, stops: list[Stop]) -> tuple[Stop, Stop]:
    """The two stops that enclose a closed change."""
    return stops[change.start], stops[change.end]


def _range(low: float, high: float) -> str:
    return f"{number(low)} to {number(high)}" if low != high else number(low)


def _sizes(sizes: Iterable[float]) -> str:
    """Name sizes, ascending: "64 and 256", "16, 32 and 3 more"."""
    return listed(map(number, sizes), LISTED)


def _count(number: int, noun: str) -> str:
    return f"{number} {_plural(noun, number)}"


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"
