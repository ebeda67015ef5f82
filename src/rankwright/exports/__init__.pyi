from .writer import export as export
from .writer import support as support
