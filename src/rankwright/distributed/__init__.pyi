from .engines import DaskEngine as DaskEngine
from .engines import Engine as Engine
from .engines import Handles as Handles
from .engines import LocalEngine as LocalEngine
from .engines import engine as engine
from .shards import Shard as Shard
from .shards import ShardedRows as ShardedRows
