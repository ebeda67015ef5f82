from .base import Popularity as Popularity
from .content import ItemContent as ItemContent
from .content import UserContent as UserContent
from .least_squares import EASE as EASE
from .least_squares import ImplicitALS as ImplicitALS
from .neighbors import ItemCosine as ItemCosine
from .neighbors import NextItems as NextItems
from .sequences import SLIT as SLIT
