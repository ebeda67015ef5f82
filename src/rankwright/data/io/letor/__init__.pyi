from .reader import read_letor as read_letor
from .reader import write_letor as write_letor
