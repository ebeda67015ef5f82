"""How work is spread over threads, without any effect on results."""

from rankwright.parallel.local import Team, map_blocks, n_threads, ranges

__all__ = ["Team", "map_blocks", "n_threads", "ranges"]
