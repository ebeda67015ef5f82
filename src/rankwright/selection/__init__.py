"""How well will it do? Progressive (test, then train) evaluation of online rankers."""

from rankwright.selection.progressive import progressive

__all__ = ["progressive"]
