from .catalog import list_datasets as list_datasets
from .catalog import load_dataset as load_dataset
from .shop import make_shop as make_shop
from .shop_log import make_shop_log as make_shop_log
from .synthetic import make_engines as make_engines
from .synthetic import make_ordinal as make_ordinal
from .synthetic import make_queries as make_queries
from .synthetic import make_ratings as make_ratings
