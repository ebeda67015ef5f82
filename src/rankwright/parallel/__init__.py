"""How work is spread over threads, without any effect on results."""

from rankwright.parallel.local import map_blocks, n_threads, ranges

__all__ = ["map_blocks", "n_threads", "ranges"]
