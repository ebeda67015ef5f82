"""Public data sets by name: found in a folder or in the cache, downloaded, or explained."""

from rankwright.data.datasets.load import Partition, Track, list_datasets, load_dataset

__all__ = ["Partition", "Track", "list_datasets", "load_dataset"]
