from .app import Settings as Settings
from .app import create_app as create_app
from .server import serve as serve
from .store import Entry as Entry
from .store import LogReader as LogReader
from .store import Store as Store
from .store import read_log as read_log
