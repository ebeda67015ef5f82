from .findings import Findings as Findings
from .findings import describe as describe
from .findings import validate as validate
from .rules import Finding as Finding
