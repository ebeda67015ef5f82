from .impressions import read_log as read_log
from .preferences import read_preferences as read_preferences
