from .models import load as load
from .models import save as save
from .scorer import load_scorer as load_scorer
