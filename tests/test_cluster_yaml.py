"""cluster.yaml: valid for Ray without asking AWS, and right where Ray's validation does not look."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

PROJECT = Path(__file__).parents[1]

# What AWS says about the machines we name: CPUs, GPUs.
INSTANCES = {"m6i.large": (2, 0), "c6i.4xlarge": (16, 0), "g5.2xlarge": (8, 1)}


@pytest.fixture
def cluster():
    return yaml.safe_load((PROJECT / "cluster.yaml").read_text())


@pytest.fixture
def prepared(cluster, monkeypatch):
    monkeypatch.chdir(PROJECT)
    return prepare_config(cluster)


def every_command(cluster):
    return [command for key, commands in cluster.items() if key.endswith("_commands") for command in commands]


def ray_starts(cluster):
    return [command for command in every_command(cluster) if "ray start" in command]


def test_ray_finds_it_valid(prepared):
    validate_config(prepared)


def test_head_runs_no_trials_and_workers_declare_what_they_have(cluster):
    for name, node in cluster["available_node_types"].items():
        cpus, gpus = INSTANCES[node["node_config"]["InstanceType"]]
        declared = (node["resources"]["CPU"], node["resources"].get("GPU", 0))
        assert declared == ((0, 0) if name == cluster["head_node_type"] else (cpus, gpus)), name


def test_an_idle_cluster_is_its_head_alone(cluster):
    nodes = cluster["available_node_types"]
    workers = [node for name, node in nodes.items() if name != cluster["head_node_type"]]
    assert [node["min_workers"] for node in workers] == [0, 0]
    assert sum(node["max_workers"] for node in workers) <= cluster["max_workers"]
    assert "min_workers" not in cluster  # a legacy key that Ray takes without a word
    assert cluster["provider"]["cache_stopped_nodes"] is False


def test_nothing_is_left_to_fill_in(cluster):
    text = yaml.safe_dump(cluster)
    assert not re.search(r"<[^>]*>|\bTODO\b|\bX{3,}|change.?me|ami-[0-9a-f]|\byour[-_ ]", text, re.IGNORECASE)
    for node in cluster["available_node_types"].values():
        assert node["node_config"]["ImageId"].startswith("resolve:ssm:/aws/service/")


def test_node_config_has_no_slip(cluster):
    # Ray hands it to AWS unread: a misspelt key would show when the first machine is asked for.
    known = {"InstanceType", "ImageId", "BlockDeviceMappings", "InstanceMarketOptions"}
    for node in cluster["available_node_types"].values():
        assert set(node["node_config"]) <= known


def test_every_mounted_source_exists_and_every_room_is_mounted(cluster):
    for source in cluster["file_mounts"].values():
        assert (PROJECT / source).exists(), source
    rooms = {path.parent.name for path in PROJECT.glob("*/__init__.py")}
    assert rooms <= set(cluster["file_mounts"].values())


def test_commands_find_what_the_mounts_bring(cluster):
    homes = {mount.rpartition("/")[0] for mount in cluster["file_mounts"]}
    assert homes == {"~/crossover"}
    setup = "\n".join(cluster["setup_commands"])
    assert 'SWEEP_HOME="$HOME/crossover"' in setup
    assert set(re.findall(r"~/crossover/\S+", setup)) <= set(cluster["file_mounts"])


def test_every_ray_start_frees_the_threads_and_settles_the_tokens(cluster):
    starts = ray_starts(cluster)
    assert len(starts) == 2
    for start in starts:
        before = start.partition("ray start")[0]
        assert "unset OMP_NUM_THREADS;" in before
        assert "export RAY_AUTH_MODE=disabled;" in before


def test_only_the_head_hears_the_dashboard(cluster):
    head = next(command for command in ray_starts(cluster) if "--head" in command)
    assert "--dashboard-host=127.0.0.1" in head
    assert "--disable-usage-stats" in head


def test_no_command_loses_its_end_to_a_comment():
    # A plain scalar ends at ` #`; the composer's marks show what the file says, quoted or not.
    plain = [
        command.start_mark.line + 1
        for key, commands in yaml.compose((PROJECT / "cluster.yaml").read_text()).value
        if key.value.endswith("_commands")
        for command in commands.value
        if command.style is None
    ]
    assert plain == []


# The machine's metadata as AWS answers it: first a token, then, with the token, what was asked.
CURL = """#!/bin/sh
case "$*" in
  "-sf -X PUT -H X-aws-ec2-metadata-token-ttl-seconds: 60 http://169.254.169.254/latest/api/token") echo secret ;;
  "-sf -H X-aws-ec2-metadata-token: secret http://169.254.169.254/latest/meta-data/ami-id") echo ami-0123 ;;
  *) exit 22 ;;
esac
"""


def test_the_head_asks_for_workers_with_the_image_it_runs(cluster, tmp_path):
    (tmp_path / "curl").write_text(CURL)
    (tmp_path / "curl").chmod(0o755)
    asked = tmp_path / "ray_bootstrap_config.yaml"
    asked.write_text(json.dumps(cluster["available_node_types"]))
    command = next(command for command in cluster["head_start_ray_commands"] if "ami-id" in command)
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["bash", "-c", command], env=environment, check=True)
    images = [node["node_config"].pop("ImageId") for node in json.loads(asked.read_text()).values()]
    assert images == ["ami-0123"] * 3
