from .features import read_log_features as read_log_features
from .impressions import read_log as read_log
from .preferences import read_preferences as read_preferences
