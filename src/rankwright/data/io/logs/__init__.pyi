from .features import read_log_features as read_log_features
from .impressions import log_from_events as log_from_events
from .impressions import read_log as read_log
from .preferences import Preferences as Preferences
from .preferences import read_preferences as read_preferences
