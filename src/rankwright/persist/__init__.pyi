from .checkpoint import Checkpoint as Checkpoint
from .models import load as load
from .models import save as save
from .scorer import load_scorer as load_scorer
from .systems import JudgedFile as JudgedFile
from .systems import evaluate_system as evaluate_system
from .systems import load_system as load_system
