from .base import Feedback as Feedback
from .base import Mixture as Mixture
from .clicks import last_click as last_click
from .clicks import position_propensity as position_propensity
from .clicks import skip_above as skip_above
from .grades import Grades as Grades
from .pairs import Bipartite as Bipartite
from .pairs import Pairs as Pairs
