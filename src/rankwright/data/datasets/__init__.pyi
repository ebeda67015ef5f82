from .load import list_datasets as list_datasets
from .load import load_dataset as load_dataset
