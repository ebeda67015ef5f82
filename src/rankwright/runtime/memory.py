"""What can still be allocated, and the error before too much is."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from pathlib import Path

from rankwright.exceptions import MemoryLimitError, ParameterError, Setting

SMALL_BYTES = 2**26  # fewer bytes are allocated without a check
CGROUP_FILES = (  # limit and usage, of version 2 and version 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_memory() -> float:
    """Bytes that this process can still allocate; infinity where the system does not say.

    The least of what is free, what the control group allows, and the limit of the address space.
    """
    amounts = [math.inf]
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable"))
        amounts.append(1024.0 * float(free.split()[1]))
    for limit, usage in CGROUP_FILES:
        with suppress(OSError, ValueError):  # "max" means no limit
            allowed, used = (float(Path(path).read_text()) for path in (limit, usage))
            amounts.append(max(allowed - used, 0.0))
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            amounts.append(max(most - float(pages * resource.getpagesize()), 0.0))
    return min(amounts)


def parse_bytes(size: int | str) -> int:
    """A number of bytes from a number or a text with a unit.

    >>> parse_bytes("2GB"), parse_bytes("512 MiB"), parse_bytes(10_000_000)
    (2000000000, 536870912, 10000000)
    """
    match = re.fullmatch(r"([0-9.]+)\s*([kMGT]?)(i?)B?", str(size).strip(), re.IGNORECASE)
    power = " KMGT".index(match[2].upper() or " ") if match else 0
    try:
        n = int(float(match[1]) * (1024 if match[3] else 1000) ** power) if match else 0
    except ValueError:
        n = 0
    if n < 1_000_000:
        raise ParameterError(
            Setting("memory", size), ": write a size of at least 1MB, such as '2GB'."
        )
    return n


def require_memory(n_bytes: float, what: str, advice: str) -> None:
    """Raise a MemoryLimitError, before anything is allocated, if that much is not available."""
    if n_bytes < SMALL_BYTES:
        return
    available = available_memory()
    if n_bytes > available:
        raise MemoryLimitError(
            f"{what} takes {n_bytes / 2**30:.1f} GiB of memory; {available / 2**30:.1f} GiB are "
            f"available. {advice}"
        )
