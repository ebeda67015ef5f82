"""LETOR (svmlight) files, in and out."""

from rankwright.data.letor.read import read_letor
from rankwright.data.letor.write import write_letor

__all__ = ["read_letor", "write_letor"]
