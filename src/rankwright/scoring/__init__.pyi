from .base import Scorer as Scorer
from .linear import Additive as Additive
from .linear import Linear as Linear
from .trees import Trees as Trees
