from .certificate import Certificate as Certificate
from .writer import export as export
from .writer import support as support
