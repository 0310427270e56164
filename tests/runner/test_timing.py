"""Timing against a clock that only moves when told, and a device that works on while the host does not wait for it."""

import gc
import itertools
import math
import statistics
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from runner import timing
from runner.environment import ROOT
from runner.timing import ACCELERATOR, CPU, Protocol, elapsed_s, half_width_of_median, measure, shortened
from tests.runner.scripted import Machine


def test_a_steady_step_takes_the_numbers_of_the_protocol():
    found = Machine(0.003).measure()
    # Warm-up: 1 step; then 1, 7, 1 (the loss of step 10 is read), and blocks of 7 until 0.2 s have passed.
    assert found.first_step_s == 0.003
    assert found.warmup_steps == 10 + 9 * 7
    assert found.warmup_s == pytest.approx(0.003 * 73)
    assert found.steps_per_block == 7  # 20 ms of them
    assert found.step_times_s == pytest.approx([0.003] * 10)
    assert found.losses == {1: 1.0, 10: 10.0}


def test_the_clock_is_read_only_after_a_wait_and_never_within_a_block():
    machine = Machine(0.003, launch_s=0.00001)
    found = machine.measure()
    events = machine.events
    assert all(before == "wait" for before, each in itertools.pairwise(events) if each == "clock")
    readings = [index for index, each in enumerate(events) if each == "clock"]
    assert events.count("wait") == len(readings)
    for start, stop in zip(readings[::2], readings[1::2], strict=True):
        assert events[start + 1 : stop] == ["step"] * (stop - start - 2) + ["wait"]
    # Stopping the clock before the wait would have found 10 us, what it takes to give the work away.
    assert found.step_times_s == pytest.approx([(0.00001 + 7 * 0.003) / 7] * 10)


def test_a_step_that_the_host_cannot_launch_fast_enough_takes_as_long_as_the_launch():
    found = Machine(0.001, launch_s=0.005).measure()
    assert found.steps_per_block == 4
    assert found.step_times_s == pytest.approx([(4 * 0.005 + 0.001) / 4] * 10)


def test_a_slow_first_step_neither_uses_up_the_warm_up_nor_sets_the_block_size():
    found = Machine(lambda number: 5.0 if number == 1 else 0.003).measure()
    assert found.first_step_s == 5.0
    assert found.warmup_s == pytest.approx(5.0 + 0.003 * 72)
    assert (found.warmup_steps, found.steps_per_block, len(found.step_times_s)) == (73, 7, 10)


def test_a_slow_second_step_does_not_set_the_block_size():
    found = Machine(lambda number: 0.09 if number == 2 else 0.003).measure()
    assert found.steps_per_block == 7
    assert found.step_times_s == pytest.approx([0.003] * 10)


def test_a_first_timed_block_of_thirty_times_the_rest_is_kept_and_does_not_decide():
    found = Machine(lambda number: 0.09 if 73 < number <= 80 else 0.003).measure()
    assert found.step_times_s == pytest.approx([0.09] + [0.003] * 9)
    assert statistics.median(found.step_times_s) == pytest.approx(0.003)


def test_a_dip_in_the_middle_is_kept_and_does_not_decide():
    found = Machine(lambda number: 0.001 if 73 + 28 < number <= 73 + 42 else 0.003).measure()
    assert found.step_times_s[:10] == pytest.approx([0.003] * 4 + [0.001] * 2 + [0.003] * 4)
    assert statistics.median(found.step_times_s) == pytest.approx(0.003)


def test_a_step_that_is_not_waited_for_takes_what_it_takes_to_give_it_away():
    waited = Machine(0.003, launch_s=0.00001).measure()
    assert statistics.median(waited.step_times_s) == pytest.approx(0.003, rel=0.001)
    unwaited = Machine(0.003, launch_s=0.00001)
    found = measure(unwaited.step, lambda: None, clock=unwaited.clock)
    assert found.step_times_s == pytest.approx([0.00001] * len(found.step_times_s))  # 300 times too quick


@pytest.mark.parametrize("usual", [CPU, ACCELERATOR])
@pytest.mark.parametrize(("most", "share"), [(5, 0.5), (7, 0.7), (20, 1.0)])
def test_a_search_takes_so_many_values_after_a_warm_up_that_is_shorter_too(usual, most, share):
    loud = Machine(lambda number: 0.003 if number % 3 else 0.004).measure(protocol=shortened(usual, most))
    assert len(loud.step_times_s) == most, "neither fewer because they agree, nor more because they do not"
    found = Machine(0.003).measure(protocol=shortened(usual, most))
    assert len(found.step_times_s) == most
    assert found.losses == {1: 1.0, 10: 10.0}
    steps = math.ceil(share * usual.warmup_s / 0.003 / 7) * 7
    assert steps <= found.warmup_steps <= steps + 14
    slow = Machine(1.0).measure(protocol=shortened(usual, most))
    assert (slow.warmup_steps, len(slow.step_times_s)) == (1 + math.ceil(share * usual.warmup_cap_s), most)


def test_a_single_value_can_be_asked_for():
    assert Machine(0.5).measure(protocol=shortened(CPU, 1)).step_times_s == [0.5]


def test_a_search_stops_where_the_clock_would_anyway():
    assert Machine(9.0).measure(protocol=shortened(CPU, 5)).step_times_s == [9.0] * 3


@pytest.mark.parametrize(("cycle", "per_block"), [(1, 7), (5, 5), (4, 8), (7, 7), (100, 100)])
def test_blocks_are_whole_cycles(cycle, per_block):
    found = Machine(0.003).measure(cycle=cycle)
    assert found.steps_per_block == per_block
    assert found.losses == {1: 1.0, 10: 10.0}


def test_what_comes_once_a_cycle_is_in_every_block_alike():
    found = Machine(lambda number: 0.011 if number % 5 == 0 else 0.001).measure(cycle=5)
    assert found.steps_per_block == 5
    assert found.step_times_s == pytest.approx([0.003] * len(found.step_times_s))


def test_a_block_of_cycles_that_turns_out_too_short_is_enlarged_by_whole_cycles():
    found = Machine(lambda number: 0.003 if number <= 73 else 0.0001).measure(cycle=6)
    assert found.steps_per_block == 198  # the nearest to 20 ms


def test_warm_up_goes_on_until_the_steps_have_settled():
    # Each step takes 6 % less than the one before, until number 60: three blocks never lie within 10 %.
    found = Machine(lambda number: 0.1 * 0.94 ** min(number, 60)).measure()
    assert found.warmup_steps >= 60
    assert found.step_times_s == pytest.approx([0.1 * 0.94**60] * len(found.step_times_s))


def test_warm_up_that_never_settles_ends_at_its_cap():
    machine = Machine(lambda _: 0.003 if machine.blocks % 2 else 0.005)
    found = machine.measure()
    assert 2.0 <= found.warmup_s < 2.0 + 0.003 + 20 * 0.005
    assert found.steps_per_block == 7  # by the faster blocks: slow ones are the disturbed ones


def test_an_accelerator_is_warmed_up_longer():
    assert Machine(0.003).measure(protocol=ACCELERATOR).warmup_s == pytest.approx(0.003 * (10 + 23 * 7 + 1), abs=0.03)
    assert ACCELERATOR.warmup_s > CPU.warmup_s


def test_long_steps_are_blocks_of_their_own_and_five_are_enough():
    found = Machine(0.4).measure()
    assert found.steps_per_block == 1
    assert found.step_times_s == pytest.approx([0.4] * 5)
    assert found.warmup_steps == 1 + 5  # 2 s
    assert found.losses == {1: 1.0}


def test_a_step_of_a_quarter_second_still_needs_ten_values():
    assert len(Machine(0.25).measure().step_times_s) == 10


def test_noise_is_measured_for_thirty_values_at_most():
    machine = Machine(lambda _: 0.003 if machine.blocks % 2 else 0.006)
    values = machine.measure().step_times_s
    assert len(values) == 30
    assert sorted(set(np.round(values, 9))) == pytest.approx([0.003, 0.006])


def test_noise_is_measured_for_twenty_seconds_at_most():
    machine = Machine(lambda _: 2.0 if machine.blocks % 2 else 4.0)
    values = machine.measure().step_times_s
    assert sum(values) >= 20.0
    assert sum(values[:-1]) < 20.0


def test_a_little_noise_stops_as_soon_as_the_median_is_known():
    machine = Machine(lambda _: (0.00294, 0.0030, 0.00306)[machine.blocks % 3])
    values = machine.measure().step_times_s
    assert 10 < len(values) < 30
    assert half_width_of_median(values) < 0.02
    assert half_width_of_median(values[:-1]) >= 0.02


def test_a_block_that_turns_out_too_short_is_enlarged_and_counts_as_warm_up():
    found = Machine(lambda number: 0.003 if number <= 73 else 0.0001).measure()
    assert found.steps_per_block == 200
    assert found.warmup_steps == 73 + 7
    assert found.warmup_s == pytest.approx(73 * 0.003 + 7 * 0.0001)
    assert found.step_times_s == pytest.approx([0.0001] * len(found.step_times_s))
    assert len(found.step_times_s) >= 10


def test_microsecond_steps_fill_a_block():
    found = Machine(2e-6).measure()
    assert found.steps_per_block == 10_000


def test_nothing_is_timed_before_ten_steps_however_the_time_goes():
    found = Machine(0.1).measure(protocol=Protocol(warmup_s=0.0))
    assert found.warmup_steps == 10
    assert found.losses == {1: 1.0, 10: 10.0}


def test_garbage_is_collected_before_and_never_between_the_readings():
    machine = Machine(0.003)
    enabled, collections = [], []

    def step():
        enabled.append(gc.isenabled())
        return machine.step()

    gc.callbacks.append(lambda phase, info: collections.append(len(enabled)) if phase == "start" else None)
    try:
        measure(step, machine.synchronize, clock=machine.clock)
    finally:
        gc.callbacks.pop()
    assert not any(enabled[1:])
    assert len(enabled) > 100
    assert 1 in collections  # after the first step
    assert max(collections) <= 1  # and not again
    assert gc.isenabled()


@pytest.mark.parametrize("fatal", [1, 2, 30, 90])
def test_garbage_collection_is_on_again_after_a_step_that_raises(fatal):
    machine = Machine(0.003)

    def step():
        if machine.steps == fatal:
            raise ZeroDivisionError
        return machine.step()

    with pytest.raises(ZeroDivisionError):
        measure(step, machine.synchronize, clock=machine.clock)
    assert gc.isenabled()


@pytest.mark.parametrize(("loss", "known"), [(None, {}), ("2.5", {}), (2.5, {1: 2.5, 10: 2.5}), (3, {1: 3.0, 10: 3.0})])
def test_a_loss_may_be_a_plain_number_and_nothing_else_is_one(loss, known):
    machine = Machine(0.003)

    def step():
        machine.step()
        return loss

    assert measure(step, machine.synchronize, clock=machine.clock).losses == known


def test_elapsed_time_holds_the_work_of_the_device():
    machine = Machine(0.5, launch_s=0.001)
    assert elapsed_s(lambda: [machine.step() for _ in range(3)], machine.synchronize, machine.clock) == 0.001 + 3 * 0.5
    assert machine.events == ["wait", "clock", "step", "step", "step", "wait", "clock"]


def test_the_table_of_student_t():
    expected = stats.t.ppf(0.975, range(1, 31))
    assert list(timing._T_975) == pytest.approx(list(expected), abs=0.0006)


@pytest.mark.parametrize("n", [10, 30])
def test_the_half_width_covers_the_median_of_normal_noise(n):
    """Its formula against draws: 95 % of intervals hold the true median, give or take."""
    draw = np.random.default_rng(7)
    held = 0
    for _ in range(1000):
        logs = draw.normal(0, 0.05, n)
        half = math.log1p(half_width_of_median(list(np.exp(logs))))
        held += abs(np.median(logs)) <= half
    assert 0.88 < held / 1000 < 0.99


def test_the_half_width_of_equal_values_is_nothing():
    assert half_width_of_median([0.25] * 10) == 0.0


def test_one_spike_does_not_widen_the_interval():
    calm = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0]
    assert half_width_of_median([*calm[:-1], 1000.0]) < 2 * half_width_of_median(calm)


def test_the_real_clock_is_one_for_all_processes():
    code = "from runner.timing import now_ns; print(now_ns())"
    before = timing.now_ns()
    there = int(subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True).stdout)
    assert before < there < timing.now_ns()


def test_the_real_clock_with_a_real_step():
    value = 0

    def step():
        nonlocal value
        value = sum(range(1000))
        return value

    found = measure(step, lambda: None)
    assert all(0 < each < found.warmup_s for each in found.step_times_s)
    assert 10 <= len(found.step_times_s) <= 30


def test_counters_are_read_between_warm_up_and_the_first_block_that_counts():
    machine = Machine(0.003)
    found = machine.measure(when_warm=lambda: machine.events.append("look"))
    (place,) = [n for n, event in enumerate(machine.events) if event == "look"]
    assert machine.events[:place].count("step") == found.warmup_steps
    assert machine.events[:place].count("clock") % 2 == 0, "within a block"


def test_counters_are_read_again_where_the_first_block_was_too_short():
    machine = Machine(lambda number: 0.02 if number <= 12 else 0.0001)  # quick as soon as it is warm
    looked = []
    found = machine.measure(when_warm=lambda: looked.append(machine.steps))
    assert len(looked) > 1
    assert looked[-1] == found.warmup_steps
