from .reader import read_letor as read_letor
from .writer import write_letor as write_letor
