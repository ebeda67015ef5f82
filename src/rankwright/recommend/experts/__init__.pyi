from .als import ImplicitALS as ImplicitALS
from .base import Expert as Expert
from .content import ItemContent as ItemContent
from .ease import EASE as EASE
from .histories import Histories as Histories
from .neighbors import ItemCosine as ItemCosine
from .neighbors import NextItems as NextItems
from .popularity import Popularity as Popularity
