from .learned import LearnedFusion as LearnedFusion
from .methods import fuse as fuse
from .normalization import normalize as normalize
