from .engines import engine as engine
from .files import evaluate_files as evaluate_files
from .files import fit_files as fit_files
from .files import score_files as score_files
