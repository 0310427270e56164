"""What a report says beside its charts, as values: gathered here once, then put on paper by the templates."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis import memory
from analysis.at_once import target_words
from analysis.blocks import Block, about_group, about_study, costs_of
from analysis.conclusion import PRACTICAL, Conclusion, Group
from analysis.explain import REMAINS, headlines, name_of
from analysis.largest import PRECISION
from analysis.load import SHORT_RUN_DRIFT, STATUS_WORDS, Study
from analysis.recorded import ORIGIN, has_recorded, method_words, span_words
from analysis.rounding import NOTHING, listed, number, percent, seconds, share, shown, times
from analysis.sentence import Topic, ratio, ratio_range
from analysis.strategy import NOT_FINISHED, answers, map_axis, next_wishes
from sweeps.axis import Span
from sweeps.definition import Sweep
from sweeps.families import FAMILIES
from sweeps.own import short_name
from sweeps.record import first_line
from sweeps.study import SWEEP

#: A list of sizes or machines longer than this is shortened.
NAMED = 8

#: Said where nobody may take the report for one about accelerators.
NO_ACCELERATOR = "No accelerator took part: every target runs on the CPU."
CPU_ONLY = (
    f"{NO_ACCELERATOR} "
    "The same sweep on a machine with an accelerator, with --targets cpu,gpu, says from what size that one wins."
)

#: How trials end that look for what fits.
FITTING = frozenset({"ok", "oom"})


@dataclass(frozen=True, kw_only=True)
class SizeRow:
    """A line of the table of sizes, as text."""

    size: str
    baseline: str
    baseline_spread: str
    challenger: str
    challenger_spread: str
    comparison: str
    comparison_range: str
    decision: str
    pairs: str
    trials: str


@dataclass(frozen=True, kw_only=True)
class PartRow:
    """A line of the table of where the time goes, as text."""

    size: str
    target: str
    part: str
    share: str
    share_range: str
    cost: str
    cost_range: str
    significant: str
    pairs: str


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """Where the time of a group's steps goes: in sentences, in a table, and what to know about both."""

    sentences: tuple[str, ...]
    rows: tuple[PartRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A labelled line."""

    label: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why trials have no result: how many of one target, where, and the message."""

    target: str
    status: str
    count: int
    sizes: str
    hosts: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Who measured, as text."""

    host: str
    cpu: str
    cores: str
    memory: str
    accelerator: str
    software: str
    code: str
    trials: int


@dataclass(frozen=True, kw_only=True)
class Section:
    """What is said about one group beside its sentence and chart."""

    group: Group
    rows: tuple[SizeRow, ...]
    reasons: tuple[str, ...]
    thresholds: tuple[Fact, ...]
    ladder: Ladder | None
    blocks: tuple[Block, ...]

    @property
    def any_not_ok(self) -> bool:
        """Whether the table needs a column for trials without a result."""
        return any(row.trials for row in self.rows)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Everything that a report says."""

    study: str
    asked: str
    heading: str
    verdicts: tuple[str, ...]
    topic: Topic
    decision_header: str
    progress: str
    unfinished: bool
    note: str
    sections: tuple[Section, ...]
    blocks: tuple[Block, ...]
    warnings: tuple[str, ...]
    causes: tuple[Cause, ...]
    method: tuple[Fact, ...]
    targets: tuple[Fact, ...]
    machines: tuple[Machine, ...]
    commands: tuple[str, ...]


def gather(study: Study, conclusion: Conclusion) -> Contents:
    """Collect everything that a report says beside its charts."""
    sweep = study.sweep
    topic = conclusion.groups[0].topic if conclusion.groups else memory.topic_of(study)
    missing = study.planned - len(study.answered)
    fine = FITTING if sweep.strategy == "largest" else {"ok"}
    costs = costs_of(study, conclusion)
    sections = tuple(
        Section(
            group=group,
            rows=tuple(
                _size_row(dict(zip(group.sizes.columns, row, strict=True)), group.topic)
                for row in group.sizes.itertuples(index=False, name=None)
            ),
            reasons=tuple(str(reason) for reason in group.crossover["reasons"]),
            thresholds=thresholds(group),
            ladder=_ladder(group, study),
            blocks=about_group(group, study, conclusion, costs),
        )
        for group in conclusion.groups
    )
    return Contents(
        study=study.name,
        asked=sweep.question,
        heading=_heading(study, conclusion),
        verdicts=_verdicts(study, conclusion, sections),
        topic=topic,
        decision_header=(f"{topic.challenger} {topic.faster}?" if topic.margin > 0 else "faster"),
        progress=_progress(study),
        unfinished=missing > 0 or not set(study.by_status) <= fine or not _is_whole(study),
        note=_note(sweep),
        sections=sections,
        blocks=about_study(study, conclusion, costs),
        warnings=study.warnings,
        causes=_causes(study),
        method=_method(study),
        targets=_targets(study),
        machines=_machines(pd.concat([study.answered, study.rungs], ignore_index=True)),
        commands=_commands(study),
    )


def _verdicts(study: Study, conclusion: Conclusion, sections: Sequence[Section]) -> tuple[str, ...]:
    """Return the answers of a study in words: to what it asks for each comparison, or what fits on each target."""
    if study.sweep.strategy == "largest":
        return memory.headlines(memory.found_in(study), study)
    told = ([block.sentences[0] for block in each.blocks if block.answers] for each in sections)
    return tuple(v for group, own in zip(conclusion.groups, told, strict=True) for v in own or [group.sentence])


def _heading(study: Study, conclusion: Conclusion) -> str:
    """Return what stands above several answers."""
    if study.sweep.strategy == "largest":
        return f"The largest {study.sweep.axis} that fits into memory"
    return f"{study.sweep.baseline} against {study.sweep.challenger}, {len(conclusion.groups)} comparisons"


def _note(sweep: Sweep) -> str:
    if any(target.needs_accelerator for target in sweep.targets):
        return ""
    return NO_ACCELERATOR if sweep.strategy == "largest" else CPU_ONLY


def _progress(study: Study) -> str:
    counts = study.by_status
    if study.sweep.strategy == "largest":
        told = [f"{counts.get('ok', 0)} fitted, {counts.get('oom', 0)} did not"]
        told += [f"{count} {status}" for status, count in counts.items() if status not in FITTING]
        text = f"{len(study.answered)} trials: {', '.join(told)}"
        return f"{text}." if _is_whole(study) else f"{text}; {NOT_FINISHED}."
    failed = [f"{count} {status}" for status, count in counts.items() if status != "ok"]
    missing = study.planned - len(study.answered)
    if missing > 0:
        failed.append(f"{missing} not run yet")
    of = "planned trials" if study.sweep.strategy == "grid" else "trials"
    text = f"{counts.get('ok', 0)} of {study.planned} {of} finished" + (f" ({', '.join(failed)})" if failed else "")
    return f"{text}." if _is_whole(study) else f"{text}; {NOT_FINISHED}."


def _is_whole(study: Study) -> bool:
    """Whether a search has nothing more to ask. Of a grid it is enough to count."""
    sweep = study.sweep
    return sweep.strategy == "grid" or bool(next_wishes(sweep, answers(study.frame)).stop)


def _size_row(row: Mapping[str, Any], topic: Topic) -> SizeRow:
    known = str(row["known_sign"] or "")
    trials = {topic.baseline: str(row["baseline_status"]), topic.challenger: str(row["challenger_status"])}
    return SizeRow(
        size=number(float(row[topic.axis])),
        baseline=seconds(row["baseline_s"]),
        baseline_spread=_spread(row["baseline_low_s"], row["baseline_high_s"]),
        challenger=seconds(row["challenger_s"]),
        challenger_spread=_spread(row["challenger_low_s"], row["challenger_high_s"]),
        comparison=ratio(row["log_ratio"], topic) if math.isfinite(row["log_ratio"]) else known or NOTHING,
        comparison_range=ratio_range(row["log_ratio_low"], row["log_ratio_high"], topic),
        decision=_decision(str(row["state"]), topic),
        pairs=str(int(row["pairs"])),
        trials="; ".join(f"{name}: {text}" for name, text in trials.items() if not re.fullmatch(r"(\d+ )?ok", text)),
    )


def _spread(low_s: float, high_s: float) -> str:
    return f"{seconds(low_s)} to {seconds(high_s)}" if math.isfinite(low_s) and low_s < high_s else ""


def _decision(state: str, topic: Topic) -> str:
    if topic.margin > 0:
        words = {"baseline": "no", "challenger": "yes"}
    else:
        words = {"baseline": topic.baseline, "challenger": topic.challenger}
    return (words | {"undecided": "too close to call", "unknown": "not known"})[state]


def _ladder(group: Group, study: Study) -> Ladder | None:
    parts = group.parts
    if parts.empty:
        return None
    notes = []
    if parts["assumed"].any():
        notes.append(
            "Too few passes to see how runs differ: the spread between them is assumed, so this is provisional."
        )
    if "twin" in set(parts["part"]) and (family := FAMILIES.get(study.sweep.workload)) and family.twin:
        notes.append(
            f"{family.twin}, which does the same arithmetic, tells what is lost to {family.twin_words}: that is inside "
            "the other parts, and so not in the chart."
        )
    return Ladder(
        sentences=tuple(headlines(parts, study.sweep.workload)),
        rows=tuple(_part_row(row, study) for row in parts.to_dict("records")),
        notes=tuple(notes),
    )


def _part_row(row: Mapping[Any, Any], study: Study) -> PartRow:
    costs = sorted((row["cost_low_s"], row["cost_high_s"]))
    return PartRow(
        size=shown(row[study.sweep.axis]),
        target=str(row["target"]),
        part=name_of(str(row["part"]), study.sweep.workload),
        share=f"{share(row['share'])} %",
        share_range=f"{share(row['share_low'], -1)} to {share(row['share_high'], 1)} %",
        cost=seconds(row["cost_s"]),
        cost_range=f"{seconds(costs[0])} to {seconds(costs[1])}",
        significant=_significance(row),
        pairs=str(int(row["pairs"])),
    )


def _significance(row: Mapping[Any, Any]) -> str:
    if row["part"] in REMAINS:
        return ""
    if row["contended"]:
        return "disturbed"
    return "yes" if row["significant"] else "no"


def thresholds(group: Group) -> tuple[Fact, ...]:
    """State the other things that people mean by a threshold, from the same rows (statistics: section 8)."""
    topic = group.topic
    limit = math.log1p(-topic.margin)
    sizes = [float(size) for size in group.sizes[topic.axis]]
    decided = [str(state) for state in group.sizes["state"]]
    known = [state != "unknown" for state in decided]
    wins = [
        value < limit if math.isfinite(value) else state == "challenger"
        for value, state in zip(group.sizes["log_ratio"], decided, strict=True)
    ]
    tested = [(size, win, state) for size, win, state, ok in zip(sizes, wins, decided, known, strict=True) if ok]
    first = next((size for size, win, _ in tested if win), None)
    sure = next((size for size, _, state in tested if state == "challenger"), None)
    lasting = None
    for size, win, _ in reversed(tested):
        if not win:
            break
        lasting = size
    smallest = tested[0][0] if tested else None

    def said(size: float | None) -> str:
        if size is None:
            return "none in the range"
        at = f"{topic.axis} {number(size)}"
        return f"at or below {at}, the smallest size compared" if size == smallest else at

    other = "any win at all" if topic.margin > 0 else f"a practical win, at least {percent(PRACTICAL)} faster"
    return (
        Fact(label=f"first size at which {topic.challenger} was {topic.faster}", value=said(first)),
        Fact(label="first size at which that is beyond the noise", value=said(sure)),
        Fact(label="smallest size from which it was so at every larger one", value=said(lasting)),
        Fact(label=other, value=group.practical),
    )


#: Facts that mean nothing where targets are not compared, and how a search for what fits goes about it.
OF_COMPARISONS = ("passes", "pairs", "timed", "margin", "drift allowance")
HOW_FOUND = (
    "each target by itself, one short trial a size: sizes are doubled until one does not fit, then the gap is "
    f"halved until the two are neighbours or {percent(PRECISION)} apart"
)


def _cause(message: object) -> str:
    """Return the line of an error that says most; allocations of all sizes fail for one reason."""
    return first_line(re.sub(r"(allocate) [\d.]+ (bytes|[KMGT]i?B)", r"\1 … \2", str(message or "")))


def _causes(study: Study) -> tuple[Cause, ...]:
    axis = study.sweep.axis
    rungs = study.rungs.assign(target=study.rungs["target"] + " (" + study.rungs["rung"] + ")")
    every = pd.concat([study.answered, rungs], ignore_index=True) if len(rungs) else study.answered
    failed = every[every["status"] != "ok"]
    failed = failed.assign(cause=failed["error_message"].map(_cause))
    causes = [
        Cause(
            target=str(target),
            status=str(status),
            count=len(rows),
            sizes=listed([number(float(size)) for size in sorted(rows[axis].unique())], NAMED),
            hosts=listed(sorted(rows["host"].dropna().unique()), NAMED) or NOTHING,
            message=str(cause) or STATUS_WORDS.get(str(status), ""),
        )
        for (target, status, cause), rows in failed.groupby(["target", "status", "cause"])
    ]
    return tuple(sorted(causes, key=lambda cause: -cause.count))


def _method(study: Study) -> tuple[Fact, ...]:
    sweep, frame = study.sweep, study.answered
    ok = frame[frame["status"] == "ok"]
    family = FAMILIES.get(sweep.workload)
    defaults = {name: parameter.default for name, parameter in family.parameters.items()} if family else {}
    given = {name: value for name, value in (defaults | sweep.parameters).items() if name not in sweep.axes}
    sizes = defaults.keys() - family.usual.keys() if family else given.keys()
    fixed = {name: value for name, value in given.items() if name in sizes and value is not None}
    levers = [name for name in given if name not in sizes]
    workload = short_name(sweep.workload) + (f": {family.summary}" if family else "")
    blocks = ok["step_times_s"].dropna().map(len)
    timed = (
        f"{_span(blocks)} blocks of {_span(ok['steps_per_block'])} steps a trial, after {_span(ok['warmup_steps'])} "
        "steps of warm-up; the median over the blocks is the trial's time"
        if len(ok)
        else "no trial finished"
    )
    whose = "both" if len(sweep.targets) == 2 else "all"
    pairing = {
        "same_node": f"{whose} targets back to back on one machine, in random order",
        "by_target": "each target where it can run; the two are not paired",
    }[sweep.pairing]
    close = "what lies close to a change was measured" if sweep.strategy == "adaptive" else "the whole sweep lasted"
    drift = (
        f"{percent(study.drift)}: {close} {'within ' * (sweep.strategy == 'adaptive')}minutes, so its passes share a "
        "drift they cannot show"
        if study.drift == SHORT_RUN_DRIFT
        else "1 % up to 5 pairs a size, 2 % above"
    )
    started = sorted(ok["start_method"].dropna().unique())
    begun, ended = frame["started_at"].min(), frame["finished_at"].max()
    facts = {
        "workload": workload,
        "fixed parameters": ", ".join(f"{name} = {shown(value)}" for name, value in fixed.items()) or "none",
        **({"levers": told} if (told := _levers(study.frame, levers)) else {}),
        **{
            f"axis {name}": listed([shown(v) for v in axis], most=40)
            if not isinstance(axis, Span)
            else f"{shown(axis.low)} to {shown(axis.high)}"
            for name, axis in sweep.axes.items()
        },
        "passes": _passes(sweep),
        "pairs": method_words(frame) or pairing,
        "process": f"a fresh one for each trial ({listed(started) or 'not known'})",
        "timed": timed,
        "deadline": f"{number(sweep.deadline_s)} s a trial",
        "margin": (
            f"{percent(sweep.margin)}: {sweep.challenger} has to need at least that much less time, "
            f"so be {times(1 / (1 - sweep.margin))} as fast"
            if sweep.margin > 0
            else "none: any difference counts"
        ),
        "seed": str(sweep.seed),
        "drift allowance": drift,
        "measured": span_words(frame)
        or (
            "not known"
            if pd.isna(begun) or pd.isna(ended)
            else f"{begun:%Y-%m-%d %H:%M:%S} to {ended:%Y-%m-%d %H:%M:%S} UTC"
        ),
    }
    if sweep.strategy == "largest":
        facts = {label: value for label, value in facts.items() if label not in OF_COMPARISONS} | {"search": HOW_FOUND}
    return tuple(Fact(label=label, value=value) for label, value in facts.items())


def _passes(sweep: Sweep) -> str:
    """Say how often a size is measured."""
    if sweep.strategy == "grid":
        return f"{sweep.passes}; each visits every configuration once, in random order"
    if map_axis(sweep):
        return "as many as it takes, cell by cell: one, and more where the two targets are close"
    if sweep.strategy == "adaptive":
        exact = f"until each change is known to +-{percent(sweep.half_width)}"
        return f"as many as it takes, size by size, {exact} or {sweep.max_pairs} pairs were measured"
    return "as many as it takes"


def _levers(frame: pd.DataFrame, names: Sequence[str]) -> str:
    """Name levers as the trials had them; one that meant nothing in any of them is left out."""
    known = {name: frame[name].dropna().unique() for name in names if name in frame}
    return ", ".join(f"{name} = {listed(sorted(map(shown, values)))}" for name, values in known.items() if len(values))


def _span(values: pd.Series[Any]) -> str:
    known = values.dropna()
    if known.empty:
        return "an unknown number of"
    low, high = int(known.min()), int(known.max())
    return str(low) if low == high else f"{low} to {high}"


def _targets(study: Study) -> tuple[Fact, ...]:
    roles = {study.sweep.baseline: "baseline", study.sweep.challenger: "challenger"}
    if study.sweep.strategy == "largest":
        roles = {}
    facts = []
    for target in study.sweep.targets:
        own = study.answered[study.answered["target"] == target.name]
        ok = own[own["status"] == "ok"]
        asked = (
            f"device {target.device}, threads {target.threads}, mode {target.mode}, precision {target.precision}, "
            f"wait policy {target.wait_policy}"
            + ("" if target.wait else ", not waited for")
            + ("" if target.max_memory is None else f", memory at most {memory.memory(target.max_memory)}")
        )
        at_once = target_words(own, target.name, study.sweep.axis)
        devices = listed(sorted(ok["device"].dropna().unique()))
        threads = _span(ok["threads_observed"])
        none = "; no trial is valid" if own["status"].eq("invalid").any() else "; no trial finished"
        used = f"; ran on {devices} with {threads} thread{'s' * (threads != '1')}" if len(ok) else none
        role = f"{roles[target.name]}: " if target.name in roles else ""
        facts.append(Fact(label=target.name, value=f"{role}{asked}{used}" + (f"; {at_once}" if at_once else "")))
    return tuple(facts)


def _machines(frame: pd.DataFrame) -> tuple[Machine, ...]:
    columns = [
        "cpu_model",
        "cores_usable",
        "cores_physical",
        "memory_bytes",
        "os",
        "python",
        "torch",
        "ray",
        "code_version",
    ]
    known = frame[frame["host"].notna()]
    machines = []
    for (host, origin, *_), rows in known.groupby(["host", ORIGIN, *columns], dropna=False, sort=True):
        first = rows.iloc[0]
        seen = rows.dropna(subset=["gpu_name"])
        cuda = listed(sorted(rows["cuda"].dropna().unique()))
        machines.append(
            Machine(
                host=f"{host} (recorded in {origin})" if origin else str(host),
                cpu=_text(first["cpu_model"]),
                cores=f"{_text(first['cores_usable'])} usable, {_text(first['cores_physical'])} physical",
                memory=_gib(first["memory_bytes"]),
                accelerator="; ".join(
                    sorted(
                        {
                            f"{name}, {_gib(size)}"
                            for name, size in zip(seen["gpu_name"], seen["gpu_memory_bytes"], strict=True)
                        }
                    )
                )
                or "none used",
                software=(
                    f"{_text(first['os'])}, Python {_text(first['python'])}, torch {_text(first['torch'])}"
                    + (f", CUDA {cuda}" if cuda else "")
                    + (f", Ray {first['ray']}" if pd.notna(first["ray"]) else ", without Ray")
                ),
                code=_text(first["code_version"]),
                trials=len(rows),
            )
        )
    return tuple(machines)


def _text(value: object) -> str:
    if value is None or pd.isna(value):  # type: ignore[call-overload]  # a scalar of any column
        return "not known"
    return str(int(value)) if isinstance(value, float) else str(value)


def _gib(size_bytes: float) -> str:
    return "not known" if pd.isna(size_bytes) else f"{size_bytes / 2**30:.3g} GiB"


def _commands(study: Study) -> tuple[str, ...]:
    """Return what repeats the study elsewhere; a path that names this machine's folders is left out."""
    place = study.name if study.folder.shown.startswith("/") else study.folder.shown
    study_folder, asked, again = (shlex.quote(path) for path in (place, f"{place}/{SWEEP}", f"{place}-again"))
    if has_recorded(study.answered):  # they are here too
        return (
            f"python sweep.py --against {study_folder} --out {again}",
            f"python -m analysis report {study_folder}",
        )
    return (f"python sweep.py {asked} --out {again}", f"python -m analysis report {study_folder}")
