from .encoder import TableEncoder as TableEncoder
