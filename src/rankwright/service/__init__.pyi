from .app import create_app as create_app
from .learning.labels import read_impression_features as read_impression_features
from .learning.labels import read_log as read_log
from .log.reader import read_entries as read_entries
from .server import serve as serve
from .settings import Settings as Settings
