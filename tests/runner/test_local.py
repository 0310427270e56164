"""The serial executor keeps the contract."""

import subprocess
import sys

import pytest

from runner import process
from runner.environment import ROOT
from runner.local import Local
from tests.runner.asking import MISDEEDS, is_alive, make_trial
from tests.runner.executor_contract import ExecutorContract, columns_of


@pytest.fixture(scope="module")
def executor():
    made = Local(accelerators=1, source=MISDEEDS.read_text())
    yield made
    made.close()


class TestLocal(ExecutorContract):
    def test_its_rows_name_no_ray(self, executor):
        found = columns_of(executor, deed="nothing")
        assert "ray" not in found
        assert "node_id" not in found


def test_trials_are_run_in_the_order_in_which_they_were_started(executor):
    (node,) = executor.nodes()
    trials = [make_trial(deed=deed) for deed in ("nothing", "exit code 7", "raise")]
    for trial in trials:
        executor.start(trial, node)
    answers = [answer for _ in trials for answer in executor.wait(0.0)]
    assert [answer.trial for answer in answers] == trials
    assert [answer.columns["status"] for answer in answers] == ["ok", "crashed", "error"]


def test_closing_ends_the_nursery():
    made = Local(accelerators=0, source=MISDEEDS.read_text())
    columns_of(made, deed="nothing")
    nursery = process._nurseries["default"]._process.pid
    assert is_alive(nursery)
    made.close()
    assert not is_alive(nursery)


def test_it_needs_no_ray():
    code = "import sys; sys.modules['ray'] = None\n"
    code += "from runner.place import choose_place\n"
    code += "executor = choose_place(None, local=True).open(accelerators=0, source=None)\n"
    code += "print(len(executor.nodes()), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "1 False\n"
