"""The documents say what is there: links, commands, flags, sweep files and code in them are tried.

A fenced block whose first line is a comment with a file name (`# my_model.py`) is that file; other
blocks of the document may refer to it.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import sweeps.record
from sweeps import definition, sweep_file
from sweeps.families import FAMILIES
from sweeps.ladder import RUNGS
from sweeps.levers import levers
from sweeps.target import Target

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def blocks(document: Path, *languages: str) -> list[str]:
    """Return the fenced blocks in one of these languages."""
    found = FENCE.findall(document.read_text(encoding="utf-8"))
    return [body for language, body in found if language in languages]


def commands(document: Path) -> list[list[str]]:
    """Return the command lines that the document shows, in words, without leading NAME=value settings."""
    lines = "\n".join(blocks(document, "sh", "bash", "console")).replace("\\\n", " ").splitlines()
    found = []
    for line in lines:
        words = shlex.split(line, comments=True)
        while words and re.match(r"^[A-Z_]+=", words[0]):
            words.pop(0)
        if words:
            found.append(words)
    return found


def anchors(document: Path) -> set[str]:
    """Return what a link may name after #, made from the headings the way GitHub makes it."""
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(text)}


def write_named_blocks(document: Path, folder: Path) -> list[Path]:
    """Write each block that names its file; return the files."""
    written = []
    for body in blocks(document, "yaml", "python"):
        if named := re.match(r"# ([\w\-]+\.(?:py|yaml))\b", body):
            path = folder / named[1]
            path.write_text(body, encoding="utf-8")
            written.append(path)
    return written


@pytest.fixture(scope="module")
def known_flags() -> dict[str, set[str]]:
    """What each command of ours says that it takes."""
    flags = {}
    analysis = {"analysis": ["-m", "analysis", "report"]}
    analysis |= {name: ["-m", "analysis", name] for name in ("timings", "predict")}
    for name, command in {"sweep.py": ["sweep.py"], **analysis}.items():
        shown = subprocess.run(
            [sys.executable, *command, "--help"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        flags[name] = {"--help", *re.findall(r"--[a-z][a-z\-]*", shown.stdout)}
    return flags


@each_document
def test_links_lead_somewhere(document: Path):
    broken = []
    for link in LINK.findall(FENCE.sub("", document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@each_document
def test_make_targets_exist(document: Path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for program, *words in commands(document):
        if program == "make":
            assert {word for word in words if "=" not in word} <= targets, words


@each_document
def test_commands_name_what_is_there(document: Path, known_flags: dict[str, set[str]]):
    for program, *words in commands(document):
        if Path(program).name == "ray":
            shipped = [word for word in words if word in ("cluster.yaml", "sweep.py")]
            assert all((ROOT / word).is_file() for word in shipped)
        elif not Path(program).name.startswith("python") or not words:
            continue
        elif words[0] == "-m":
            assert (ROOT / words[1]).is_dir() or importlib.util.find_spec(words[1]), words
        elif words[0].endswith(".py"):
            assert (ROOT / words[0]).is_file(), words
        ours = max((i for i, word in enumerate(words) if word in known_flags), default=None)
        if ours is not None:
            flags = {word.partition("=")[0] for word in words[ours + 1 :] if re.match(r"--[a-z]", word)}
            assert flags <= known_flags[words[ours]], words
        if "sweep.py" in words:
            after = [word for word in words[words.index("sweep.py") + 1 :] if word != "--"]
            if after and "/" in after[0]:
                assert (ROOT / after[0]).is_file(), words
            elif after and not after[0].startswith("-") and not after[0].endswith((".yaml", ".yml")):
                assert after[0] in sweep_file.catalog(), words


@each_document
def test_sweep_files_are_valid(document: Path, tmp_path: Path):
    for path in write_named_blocks(document, tmp_path):
        if path.suffix == ".yaml" and "axes:" in path.read_text(encoding="utf-8"):
            assert sweep_file.load(str(path)).pairs()


def test_readme_has_a_sweep_file_and_a_model(tmp_path: Path):
    suffixes = {path.suffix for path in write_named_blocks(ROOT / "README.md", tmp_path)}
    assert suffixes == {".py", ".yaml"}


def test_readme_model_trains(tmp_path: Path):
    files = write_named_blocks(ROOT / "README.md", tmp_path)
    loaded = [sweep_file.load(str(path)) for path in files if path.suffix == ".yaml"]
    (asked,) = [sweep for sweep in loaded if ":" in sweep.workload]
    place, _, factory = asked.workload.rpartition(":")
    spec = importlib.util.spec_from_file_location("readme_model", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    training = getattr(module, factory)(seed=0, **asked.configurations()[0])
    training.prepare(torch.device("cpu"), "cpu")
    losses = [training.step() for _ in range(30)]
    assert all(loss.numel() == 1 and math.isfinite(loss.item()) for loss in losses)
    assert losses[-1].item() < losses[0].item()


def test_readme_first_screen_has_the_two_commands():
    top = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:25])
    assert "make sweep" in top
    assert "make test" in top


def test_readme_names_every_sweep_that_ships():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in sweep_file.catalog() if f"| `{name}` |" not in text] == []


def test_readme_names_every_workload_and_what_it_can_be_asked():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    for name, family in FAMILIES.items():
        told = {"classes", "batch_size", *levers()}
        asked = ", ".join(parameter for parameter in family.parameters if parameter not in told)
        assert [line for line in lines if line.startswith(f"| `{name}` |") and line.endswith(f"| {asked} |")], name


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md"])
def test_the_tree_of_rooms_is_the_one_on_disk(name: str):
    trees = [body for body in blocks(ROOT / name, "text") if "sweep.py" in body.splitlines()[0]]
    assert len(trees) == 1
    folders = [ROOT]
    for line in trees[0].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        entry = line.split()[0]
        path = folders[depth] / entry
        assert path.is_dir() if entry.endswith("/") else path.is_file(), entry
        folders[depth + 1 :] = [path]


def test_the_architecture_names_every_module():
    (tree,) = [body for body in blocks(ROOT / "ARCHITECTURE.md", "text") if "sweep.py" in body.splitlines()[0]]
    entries = {line.split()[0] for line in tree.splitlines()}
    modules = {path.name for room in ("sweeps", "runner", "analysis") for path in (ROOT / room).glob("*.py")}
    assert {name for name in modules if not name.startswith("__")} <= entries


def test_changelog_tells_of_the_current_schema():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = [int(number) for number in re.findall(r"Schema version (\d+)", text)]
    assert max(versions) == sweeps.record.SCHEMA_VERSION


def test_every_key_of_a_sweep_file_is_explained():
    text = (ROOT / "docs" / "sweep-file.md").read_text()
    assert [key for key in (*definition.Sweep.model_fields, "without_accelerator") if f"`{key}`" not in text] == []


def test_every_lever_rung_and_key_of_a_target_is_explained():
    text = (ROOT / "docs" / "levers.md").read_text(encoding="utf-8")
    named = [*levers(), *set(RUNGS) - {"nowait"}, *(set(Target.model_fields) - {"name", "device"})]
    assert [name for name in named if f"`{name}`" not in text] == []
    assert all(value in text for name in ("loader", "transfer", "sync", "dtype") for value in levers()[name].values)
