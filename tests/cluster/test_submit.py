"""The whole program on a cluster: `ray up`, `ray submit`, results back, on pretend machines with real ssh."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
import yaml

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PROJECT = Path(__file__).parents[2]
LAPTOP, HEAD, CPU_WORKER, GPU_WORKER = range(4)
STUDY = "results/smoke"


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """What a user has after the documented commands.

    Attributes:
        exit_code: of `ray submit`.
        lines: what `ray submit` printed, Ray's own words included.
        study: the study's folder on the laptop.
        rows: its records.
    """

    exit_code: int
    lines: list[str]
    study: Path
    rows: pd.DataFrame


def on_pretend_machines(shipped, hosts):
    """The shipped cluster-local.yaml with the hosts filled in: same mounts, same set-up, same start commands.

    Left out is pip, which needs the outside world. Added is what the hosts do not have of their own: a number of CPUs
    and, on one worker, a GPU, by host name since all workers are started with one command. Ray's object store would
    take 30 % of the memory on each host, and the hosts share one memory.
    """
    workers = [hosts.address(CPU_WORKER), hosts.address(GPU_WORKER)]
    settings = {
        "head_start_ray_commands": "",
        "worker_start_ray_commands": f"--num-cpus=2 $([ $(hostname) = host{GPU_WORKER} ] && echo --num-gpus=1)",
    }
    commands = {
        key: [
            f"{command} --object-store-memory=200000000 {flags}" if "ray start" in command else command
            for command in shipped[key]
        ]
        for key, flags in settings.items()
    }
    return {
        **shipped,
        **commands,
        "provider": {"type": "local", "head_ip": hosts.address(HEAD), "worker_ips": workers},
        "auth": {**shipped["auth"], "ssh_user": "root"},
        "setup_commands": [command for command in shipped["setup_commands"] if "pip install" not in command],
    }


@pytest.fixture(scope="module")
def submitted(hosts):
    clone = hosts.home(LAPTOP) / "crossover"
    environment = ["--exclude=" + sys.prefix.removeprefix(f"{PROJECT}")] if sys.prefix.startswith(f"{PROJECT}/") else []
    subprocess.run(
        ["rsync", "-a", "--filter=:- .gitignore", "--exclude=.git", "--exclude=/results", *environment,
         f"{PROJECT}/", f"{clone}/"],
        check=True,
    )  # fmt: skip
    shipped = yaml.safe_load((PROJECT / "cluster-local.yaml").read_text())
    (clone / "cluster.yaml").write_text(yaml.safe_dump(on_pretend_machines(shipped, hosts)))

    def on_laptop(command, timeout_s):
        return hosts.run(LAPTOP, f"cd ~/crossover && {command}", timeout_s=timeout_s)

    # Provider `local` and Ray's second autoscaler do not get on: one of two workers never comes.
    up = on_laptop("RAY_UP_enable_autoscaler_v2=0 ray up -y --disable-usage-stats cluster.yaml", 300)
    assert up.returncode == 0, up.stdout
    submit = on_laptop("ray submit cluster.yaml sweep.py -- smoke", 500)
    print(submit.stdout)
    back = on_laptop("ray rsync-down cluster.yaml '~/results/' results/", 60)
    assert back.returncode == 0, back.stdout
    return Submitted(
        exit_code=submit.returncode,
        lines=submit.stdout.splitlines(),
        study=clone / STUDY,
        rows=pd.read_parquet(clone / STUDY / "trials"),
    )


def test_the_first_line_says_that_it_runs_on_the_cluster_and_why(submitted):
    ours = [line for line in submitted.lines if line.startswith(("Runs on", "smoke:", "No node", "done "))]
    assert ours[0].startswith("Runs on the Ray cluster")
    assert "SWEEP_HOME" in ours[0]


def test_unavailable_is_an_answer_not_a_failure(submitted):
    assert submitted.exit_code == 0, "\n".join(submitted.lines)


def test_every_row_was_announced_when_it_was_on_disk(submitted):
    announced = {tuple(line.split()[1:]) for line in submitted.lines if line.startswith("done ")}
    assert announced == set(zip(submitted.rows.trial_id, submitted.rows.status, strict=True))


def test_trials_ran_on_both_workers_and_never_on_the_head(submitted):
    assert set(submitted.rows.host) == {f"host{CPU_WORKER}", f"host{GPU_WORKER}"}


def test_cpu_trials_trained_on_the_threads_they_were_asked_to(submitted):
    rows = submitted.rows[submitted.rows.device == "cpu"]
    assert len(rows)
    assert set(rows.status) == {"ok"}
    assert rows.threads_observed.tolist() == rows.threads_requested.tolist()
    assert all(len(times) and min(times) > 0 for times in rows.step_times_s)


def test_gpu_trials_went_to_the_node_that_declared_one_and_say_why_they_could_not_run(submitted):
    rows = submitted.rows[submitted.rows.target == "gpu"]
    assert len(rows)
    assert set(rows.host) == {f"host{GPU_WORKER}"}
    assert set(rows.status) == {"unavailable"}
    assert all("cuda" in cause.lower() for cause in rows.error_message)


def test_the_conclusion_is_honest_about_the_missing_side(submitted):
    crossovers = json.loads((submitted.study / "crossovers.json").read_text())["crossovers"]
    assert [crossover["verdict"] for crossover in crossovers] == ["undetermined"]
    assert any("gpu" in reason for reason in crossovers[0]["reasons"])
    assert "gpu" in (submitted.study / "report.md").read_text()
