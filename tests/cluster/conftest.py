"""Pretend machines out of Linux namespaces: real ssh, rsync and `ray up` between them, on one real machine."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
HOSTS = range(4)  # the laptop, the head and two workers
LAPTOP = HOSTS[0]
TOOLS = ("ip", "mount", "nsenter", "rsync", "setpriv", "ssh", "ssh-keygen", "sshd", "unshare")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KEY = ".ssh/id_ed25519"  # below the laptop's home folder

SSHD_CONFIG = """\
HostKey /run/host/hostkey
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
MaxSessions 64
MaxStartups 64
"""


def what_is_missing() -> str:
    """What keeps this machine from making hosts out of namespaces; empty when nothing does."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs root on Linux"
    absent = [tool for tool in TOOLS if shutil.which(tool, path=SYSTEM_PATH) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian: openssh-server openssh-client rsync iproute2 util-linux)"
    if not Path(sys.prefix, "bin", "ray").exists():
        return f"no bin/ray in {sys.prefix}"
    trial = "ip link add switch type bridge && mount -t tmpfs tmpfs /run"
    made = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", trial],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"no namespaces here: {made.stderr.strip()}" if made.returncode else ""


def python_folders() -> list[str]:
    """Every folder that this interpreter needs: its prefix, its base, and whatever its links lead through."""
    folders = {Path(sys.prefix), Path(sys.base_prefix)}
    link = Path(sys.prefix, "bin", "python")
    while link.is_symlink():
        link = link.parent / link.readlink()
        folders.add(Path(os.path.normpath(link)).parents[1])
    return sorted(str(folder) for folder in folders - {Path("/")})


class Hosts:
    """A laptop, a head and two workers, up from construction until `down`.

    Each has an address, a host name, processes, a home folder and an sshd of its own. What they do not have is the
    project: it reaches them over the network or not at all.
    """

    def __init__(self, folder: Path) -> None:
        """Starts the hosts and waits until sshd listens on each.

        Args:
            folder: where the hosts' own files lie; must exist and be empty.
        """
        self.folder = folder
        names = [f"{self.address(host)} host{host}\n" for host in HOSTS]
        for key in ("id", "hostkey"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        for host in HOSTS:
            (self.home(host) / ".ssh").mkdir(parents=True, mode=0o700)
            (folder / f"host{host}" / "tmp").mkdir(mode=0o1777)
            (folder / f"host{host}" / "hosts").write_text("127.0.0.1 localhost\n" + "".join(names))
            (folder / f"host{host}" / "sshd_config").write_text(SSHD_CONFIG)
            shutil.copy(folder / "hostkey", folder / f"host{host}" / "hostkey")
            shutil.copy(folder / "id.pub", self.home(host) / ".ssh" / "authorized_keys")
            (self.home(host) / ".bashrc").touch()
            # The environment that cluster.yaml makes, ready made: nothing can be downloaded here.
            if sys.prefix != "/root/venv":
                (self.home(host) / "venv").symlink_to(sys.prefix)
        shutil.copy(folder / "id", self.home(LAPTOP) / KEY)
        with (folder / "network.log").open("w") as log:
            # --pdeathsig and --kill-child: the hosts end with the tests, however these end.
            self._network = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc",
                 "--kill-child", "bash", HERE / "network.sh", folder, str(HOSTS[-1]), PROJECT, *python_folders()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": SYSTEM_PATH},
            )  # fmt: skip
        try:
            for host in HOSTS:
                self._wait_until_up(host)
        except BaseException:
            self.down()
            raise

    @staticmethod
    def address(host: int) -> str:
        """The address of a host on their network."""
        return f"10.77.0.{10 + host}"

    def home(self, host: int) -> Path:
        """The home folder of a host, as seen from the real machine."""
        return self.folder / f"host{host}" / "root"

    def run(self, host: int, command: str, *, timeout_s: float) -> "subprocess.CompletedProcess[str]":
        """Runs a shell command on a host over ssh, in its home folder, with its Python on the PATH.

        Returns:
            The finished process; stderr is in its stdout, as on a terminal.
        """
        return subprocess.run(
            ["nsenter", f"--target={self._network.pid}", "--net",
             "ssh", "-F", "none", "-i", self.folder / "id", "-o", "StrictHostKeyChecking=no",
             "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=5",
             f"root@{self.address(host)}", f"export PATH=~/venv/bin:$PATH; {command}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def down(self) -> None:
        """Ends every process of every host and waits until they are gone."""
        self._network.kill()
        self._network.wait()
        deadline = time.monotonic() + 20
        while left := self.processes_on(self.folder):
            assert time.monotonic() < deadline, f"processes of the hosts live on: {left}"
            time.sleep(0.05)

    @staticmethod
    def processes_on(folder: Path) -> list[int]:
        """The processes that run on hosts made in `folder`: they see it mounted."""
        found = []
        for mounts in Path("/proc").glob("[0-9]*/mountinfo"):
            try:
                if f"{folder.name}/host" in mounts.read_text():
                    found.append(int(mounts.parent.name))
            except OSError:  # it ended while we looked
                continue
        return found

    def _wait_until_up(self, host: int) -> None:
        log = self.folder / f"host{host}.log"
        deadline = time.monotonic() + 30
        while not (log.exists() and "Server listening" in log.read_text()):
            if time.monotonic() > deadline or self._network.poll() is not None:
                logs = [f"{log.name}: {log.read_text()}" for log in sorted(self.folder.glob("*.log"))]
                pytest.fail(f"host{host} does not come up\n" + "".join(logs))
            time.sleep(0.05)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Four hosts that are up; gone, with all their processes, when the module's tests are done."""
    if missing := what_is_missing():
        pytest.skip(missing)
    machines = Hosts(tmp_path_factory.mktemp(f"hosts-of-{os.getpid()}-"))
    try:
        yield machines
    finally:
        machines.down()
