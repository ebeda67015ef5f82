from .app import Settings as Settings
from .app import create_app as create_app
from .log.reader import Entry as Entry
from .log.reader import LogReader as LogReader
from .log.reader import read_entries as read_entries
from .log.store import Store as Store
from .server import serve as serve
