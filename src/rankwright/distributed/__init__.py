"""The same estimators on a cluster, or on data larger than memory: equal models, bit for bit.

===============  ===================================================================================
``engines``      :func:`engine`: threads of this process, or the workers of a Dask cluster
``shards``       queries hashed into a fixed number of logical shards, whole
``fitting``      ``fit`` on an engine: checks, shards, and the function that learns from them
===============  ===================================================================================

**How an estimator learns from shards.** ``_shard_fit`` of its class names a function
``fit(estimator, engine, rows)``. It gets an estimator with checked parameters and with
``n_features_in_``, ``n_queries_in_`` and ``feature_names_in_`` set, and ``rows``, a
:class:`~rankwright.distributed.shards.ShardedRows`. It sets the learned attributes that a local
``fit`` sets. A parameter that it cannot obey is refused by ``fitting.refuse``. Sums of floats go
through ``engine.reduce``, whose tree is fixed by the order of shards; sums of integers may also be
taken over blocks of shards (``engine.map_blocks``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
