from .attributes import Attributes as Attributes
from .click_simulation import ClickSimulator as ClickSimulator
from .impressions import ImpressionLog as ImpressionLog
from .interactions import Interactions as Interactions
from .ratings import Ratings as Ratings
