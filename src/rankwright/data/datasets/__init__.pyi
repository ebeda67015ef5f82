from .catalog import list_datasets as list_datasets
from .catalog import load_dataset as load_dataset
<<<<<<< HEAD
from .shop import make_shop as make_shop
=======
from .shop import make_shop_log as make_shop_log
>>>>>>> b67e616c (recommend: event types, dislikes, half-life, exploration; a shop log)
from .synthetic import make_engines as make_engines
from .synthetic import make_ordinal as make_ordinal
from .synthetic import make_queries as make_queries
from .synthetic import make_ratings as make_ratings
