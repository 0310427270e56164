"""The two cluster files: valid for Ray without asking anybody, and right where its validation does not look."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.autoscaler.v2.instance_manager.config import NodeTypeConfig
from ray.autoscaler.v2.scheduler import ResourceDemandScheduler, SchedulingRequest
from ray.core.generated import autoscaler_pb2, common_pb2

from runner.cluster import POOL

PROJECT = Path(__file__).parents[1]

# What AWS says about the machines we name: CPUs, GPUs.
INSTANCES = {"m6i.large": (2, 0), "c6i.4xlarge": (16, 0), "g5.2xlarge": (8, 1)}


@pytest.fixture
def cluster():
    return yaml.safe_load((PROJECT / "cluster.yaml").read_text())


@pytest.fixture
def local():
    return yaml.safe_load((PROJECT / "cluster-local.yaml").read_text())


@pytest.fixture
def either(request, cluster, local):
    return {"cluster.yaml": cluster, "cluster-local.yaml": local}[request.param]


FILES = ("cluster.yaml", "cluster-local.yaml")
each_file = pytest.mark.parametrize("either", FILES, indirect=True)


def every_command(cluster):
    return [command for key, commands in cluster.items() if key.endswith("_commands") for command in commands]


def ray_starts(cluster):
    return [command for command in every_command(cluster) if "ray start" in command]


@each_file
def test_ray_finds_it_valid(either, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.chdir(PROJECT)
    validate_config(prepare_config(either))


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


@each_file
def test_every_mounted_source_exists_and_every_room_is_mounted(either):
    for source in either["file_mounts"].values():
        assert (PROJECT / source).exists(), source
    rooms = {path.parent.name for path in PROJECT.glob("*/__init__.py")}
    assert rooms <= set(either["file_mounts"].values())


@each_file
def test_commands_find_what_the_mounts_bring(either):
    homes = {mount.rpartition("/")[0] for mount in either["file_mounts"]}
    assert homes == {"~/crossover"}
    setup = "\n".join(either["setup_commands"])
    assert 'SWEEP_HOME="$HOME/crossover"' in setup
    assert set(re.findall(r"~/crossover/\S+", setup)) <= set(either["file_mounts"])


def test_both_files_bring_the_same(cluster, local):
    for key in ("cluster_name", "file_mounts", "rsync_exclude"):
        assert cluster[key] == local[key]
    assert cluster["setup_commands"][1:] == local["setup_commands"][1:]
    assert cluster["worker_start_ray_commands"] == local["worker_start_ray_commands"]


def test_machines_one_has_are_all_used_and_the_head_runs_no_trials(local):
    assert local["min_workers"] == local["max_workers"] == len(local["provider"]["worker_ips"])
    (head,) = [command for command in ray_starts(local) if "--head" in command]
    assert "--num-cpus=0 " in head


def test_what_is_to_be_filled_in_is_marked(local):
    lines = (PROJECT / "cluster-local.yaml").read_text().splitlines()
    marked = {line.split(":")[0].strip() for line in lines if "# HERE" in line}
    assert marked == {*local["provider"], *local["auth"]} - {"type"}


def test_pools_can_be_told_apart_by_label(cluster):
    """`runner.cluster` asks for CPU trials of a sweep by target with `pool: !gpu`."""
    for name, node in cluster["available_node_types"].items():
        if name != cluster["head_node_type"]:
            assert node["labels"] == {POOL: "gpu" if node["resources"].get("GPU") else "cpu"}


@each_file
def test_every_ray_start_frees_the_threads_and_settles_the_tokens(either):
    starts = ray_starts(either)
    assert len(starts) == 2
    for start in starts:
        before = start.partition("ray start")[0]
        assert "unset OMP_NUM_THREADS;" in before
        assert "export RAY_AUTH_MODE=disabled;" in before


@each_file
def test_only_the_head_hears_the_dashboard(either):
    head = next(command for command in ray_starts(either) if "--head" in command)
    assert "--dashboard-host=127.0.0.1" in head
    assert "--disable-usage-stats" in head


@pytest.mark.parametrize("file", FILES)
def test_no_command_loses_its_end_to_a_comment(file):
    # A plain scalar ends at ` #`; the composer's marks show what the file says, quoted or not.
    plain = [
        command.start_mark.line + 1
        for key, commands in yaml.compose((PROJECT / file).read_text()).value
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


@pytest.mark.parametrize(
    ("resources", "operator", "pools"),
    [
        ({"CPU": 1}, common_pb2.LABEL_OPERATOR_NOT_IN, ["cpu_pool"]),  # a CPU trial of a sweep by target
        ({"CPU": 1}, common_pb2.LABEL_OPERATOR_IN, ["gpu_pool"]),  # where: {pool: gpu}
        ({"CPU": 1, "GPU": 1}, None, ["gpu_pool"]),
        ({"CPU": 1}, None, ["cpu_pool"]),
    ],
)
def test_ray_starts_the_pool_that_is_asked_for(cluster, resources, operator, pools):
    """The part of Ray's autoscaler that decides, without AWS behind it."""
    types = {
        name: NodeTypeConfig(
            name=name,
            min_worker_nodes=0,
            max_worker_nodes=node.get("max_workers", 0),
            resources=dict(node["resources"]),
            labels=node.get("labels", {}),
        )
        for name, node in cluster["available_node_types"].items()
    }
    asked = {"label_key": POOL, "operator": operator, "label_values": ["gpu"]}
    selector = [common_pb2.LabelSelector(label_constraints=[common_pb2.LabelSelectorConstraint(**asked)])]
    bundle = autoscaler_pb2.ResourceRequest(
        resources_bundle=resources, label_selectors=selector if operator is not None else []
    )
    counted = autoscaler_pb2.ResourceRequestByCount(request=bundle, count=1)
    request = SchedulingRequest(
        disable_launch_config_check=True,
        node_type_configs=types,
        max_num_nodes=cluster["max_workers"],
        cluster_resource_constraints=[autoscaler_pb2.ClusterResourceConstraint(resource_requests=[counted])],
    )
    assert [each.instance_type for each in ResourceDemandScheduler(None).schedule(request).to_launch] == pools
