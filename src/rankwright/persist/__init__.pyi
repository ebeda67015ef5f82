from .models import Checkpoint as Checkpoint
from .models import load as load
from .models import model_digest as model_digest
from .models import save as save
from .provenance import provenance_of as provenance_of
from .scorer import load_scorer as load_scorer
