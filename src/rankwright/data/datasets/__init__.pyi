from .catalog import list_datasets as list_datasets
from .catalog import load_dataset as load_dataset
