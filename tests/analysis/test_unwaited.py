"""A target that was timed without waiting for the device is flagged, says it so or not, and decides nothing if so."""

from datetime import timedelta

import pandas as pd
import pytest

from analysis import report
from analysis.conclusion import conclude
from analysis.contents import gather
from analysis.load import load
from analysis.unwaited import never_waited

TARGETS = ["cpu", "gpu", {"name": "gpu-unwaited", "device": "gpu", "wait": False}]


def time_of(trial):
    size = trial.parameters["batch_size"]
    if not trial.target.wait:
        return 3e-6
    return 1e-5 * size if trial.target.device == "cpu" else 9e-4 + 1e-6 * size


def work(bytes_per_row=0.0, parameter_bytes=0.0, flops_per_row=0.0):
    return lambda target, size, index: {
        "h2d_bytes_per_step": bytes_per_row * size,
        "parameter_bytes": parameter_bytes,
        "flops_per_step": flops_per_row * size,
    }


def warnings_of(make_study, **options):
    return load(make_study(targets=TARGETS, time_of=time_of, **options)).warnings


def test_it_is_told_with_its_waited_partner_where_it_is_most_wrong(make_study):
    (warning,) = warnings_of(make_study, noise=0.0)
    assert warning == (
        "gpu-unwaited was timed without waiting for the device: at batch_size 4096 a step seems to take 3.00 µs; "
        "waited for (gpu) 5.00 ms. Such times are those of the queue, not of the work, and take no part in any verdict"
    )


def test_without_a_partner_its_quickest_time_is_told(make_study):
    other = [*TARGETS[:2], {"name": "graph-unwaited", "device": "gpu", "mode": "cudagraph", "wait": False}]
    (warning,) = load(make_study(targets=other, time_of=time_of)).warnings
    assert warning.startswith("graph-unwaited was timed without waiting for the device: at batch_size ")
    assert "waited for" not in warning


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"bytes_per_row": 4e3}, "; there its batch would reach the device at 5.46 TB/s. Such"),
        ({"parameter_bytes": 67e6}, "its parameters alone would be read at 22.3 TB/s. Such"),
        ({"flops_per_row": 1e9}, "; there it would compute at 1.37 EFLOP/s. Such"),
        # The one that is furthest beyond anything known is told.
        ({"bytes_per_row": 4e3, "flops_per_row": 1e9}, "; there it would compute at 1.37 EFLOP/s. Such"),
    ],
)
def test_rates_that_nothing_reaches_are_told(make_study, asked, said):
    (warning,) = warnings_of(make_study, noise=0.0, row=work(**asked))
    assert said in warning


def test_a_rate_that_could_be_is_not_told(make_study):
    (warning,) = warnings_of(make_study, row=work(bytes_per_row=10, parameter_bytes=1e5, flops_per_row=1e3))
    assert "would" not in warning


def test_its_trials_are_planned_ones_but_decide_nothing(make_study):
    with_it = load(make_study("with", targets=TARGETS, time_of=time_of, noise=0.0))
    without = load(make_study("without", targets=TARGETS[:2], time_of=time_of, noise=0.0))
    assert (len(with_it.answered), with_it.planned, len(with_it.frame)) == (90, 90, 60)
    found, expected = conclude(with_it).crossovers, conclude(without).crossovers
    assert found.drop(columns="reasons").equals(expected.drop(columns="reasons"))
    contents = gather(with_it, conclude(with_it))
    assert contents.progress == "90 of 90 planned trials finished."
    (told,) = (fact.value for fact in contents.targets if fact.label == "gpu-unwaited")
    assert "not waited for" in told
    assert "ran on cuda" in told


def test_all_files_of_the_report_flag_it(make_study):
    folder = make_study(targets=TARGETS, time_of=time_of)
    (warning,) = report.write(folder).warnings
    assert warning.partition(";")[0] in (folder / "report.html").read_text()
    assert warning.partition(";")[0] in (folder / "report.md").read_text()
    assert "gpu-unwaited: typical" not in (folder / "charts" / "crossover.svg").read_text()


def test_where_none_of_its_trials_finished_there_is_nothing_to_flag(make_study):
    def fail(target, *_):
        return ("error", "x") if target == "gpu-unwaited" else None

    folder = make_study(targets=TARGETS, time_of=time_of, lasted=timedelta(minutes=20), fail=fail)
    assert load(folder).warnings == ()
    assert gather(load(folder), conclude(load(folder))).progress == "60 of 90 planned trials finished (30 error)."


#: A GPU that claims to have been waited for, and whose time does not grow with its work.
FLAT = {"cpu": lambda size: 1e-5 * size, "gpu": lambda size: 3e-6}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"flops_per_row": 1e9}, ("flops_per_step", "it would compute at 1.37 EFLOP/s")),
        ({"parameter_bytes": 67e6}, ("parameter_bytes", "its parameters alone would be read at 22.3 TB/s")),
        ({"bytes_per_row": 4e3}, ("h2d_bytes_per_step", "its batch would reach the device at 5.46 TB/s")),
    ],
)
def test_a_target_that_claims_to_have_waited_is_found_out(make_study, asked, said):
    (warning,) = load(make_study(times=FLAT, noise=0.0, lasted=timedelta(hours=1), row=work(**asked))).warnings
    at = 4 if "parameter_bytes" in asked else 4096
    told = f"gpu was never waited for, or its {said[0]} is wrong: at batch_size {at} a step seems to take 3.00 µs, so "
    assert warning.startswith(f"30 trials of gpu are invalid and left out of every comparison: {told}"[:150])


def test_times_that_nothing_reaches_take_no_part_in_a_verdict(make_study):
    folder = make_study(times=FLAT, row=work(flops_per_row=1e9))
    written = report.write(folder)
    (verdict,) = written.crossovers["verdict"]
    assert verdict == "undetermined"
    assert any("gpu was never waited for" in warning for warning in written.warnings)
    assert "would compute at" in (folder / "report.md").read_text()


def test_to_a_host_nothing_is_copied(make_study):
    quick = {"cpu": lambda size: 3e-6, "gpu": lambda size: 1e-5 * size}
    assert load(make_study(times=quick, row=work(bytes_per_row=4e3))).warnings == ()


def test_one_trial_that_is_too_good_is_not_enough(make_study):
    def lucky(trial):
        size = trial.parameters["batch_size"]
        return 3e-6 if trial.target.name == "gpu" and trial.pass_index == 0 else 1e-5 * size

    warnings = load(make_study(time_of=lucky, times=FLAT, row=work(flops_per_row=1e9))).warnings
    assert not any("never waited for" in warning for warning in warnings)


def foreign(**columns):
    """Timings of an elementwise addition on n x n numbers as somebody else has them: the GPU's line is flat."""
    sizes = [4, 40, 400, 4000]
    rows = [(n, "gpu", "ok", [4.4e-5]) for n in sizes] + [(n, "cpu", "ok", [2e-9 * n * n + 1e-5]) for n in sizes]
    frame = pd.DataFrame(rows, columns=["n", "target", "status", "step_times_s"])
    return frame.assign(**{name: per * frame["n"] ** 2 for name, per in columns.items()})


def test_foreign_timings_that_do_not_tell_their_work_are_not_accused():
    assert never_waited(foreign(), axis="n") == {}
    assert never_waited(foreign().iloc[:0], axis="n") == {}


def test_foreign_timings_that_tell_their_work_are_found_out():
    assert never_waited(foreign(flops_per_step=1.0), axis="n") == {}
    (warning,) = never_waited(foreign(parameter_bytes=80.0), axis="n").values()
    assert warning.startswith(
        "gpu was never waited for, or its parameter_bytes is wrong: at n 4000 a step seems to take"
    )


def test_times_of_different_work_are_not_mixed():
    twice = pd.concat([foreign(flops_per_step=per).assign(depth=per) for per in (1.0, 2e4)], ignore_index=True)
    (warning,) = never_waited(twice, axis="n", per=["depth", "n"]).values()
    assert "7.27 PFLOP/s" in warning
