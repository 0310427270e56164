"""What shows from outside that a process has used the driver of an accelerator: what it has open, what it has loaded.

torch can be asked whether it has begun to use CUDA, but not whether somebody has asked it for devices, which starts the
driver too. The kernel shows both: the driver's files stay open, and its libraries stay in memory.
"""

from __future__ import annotations

from pathlib import Path

PROCESSES = Path("/proc")
#: Files by which programs reach a driver: NVIDIA's, AMD's, and that of a GPU behind Windows.
FILES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/dxg")
#: Libraries of NVIDIA's driver: of CUDA, and of the management that torch can be told to ask instead.
LIBRARIES = ("libcuda.so", "libnvidia-ml.so")


def traces(process: int) -> list[str] | None:
    """Return the files and libraries of a driver that a process has open or loaded.

    Args:
        process: Its number; one of ours.

    Returns:
        Their names, sorted; None where the kernel does not tell.
    """
    folder = PROCESSES / str(process)
    try:
        mapped = {line.split(maxsplit=5)[5] for line in (folder / "maps").read_text().splitlines() if "/" in line}
        links = list((folder / "fd").iterdir())
    except (OSError, UnicodeDecodeError):
        return None
    found = {Path(path).name for path in mapped if Path(path).name.startswith(LIBRARIES)}
    for link in links:
        try:
            path = str(link.readlink())
        except OSError:  # closed meanwhile
            continue
        if path.startswith(FILES):
            found.add(path)
    return sorted(found)
