"""The documents that a service holds for models with a feature set."""

from __future__ import annotations

import threading

from rankwright.data.io.collection import read_documents
from rankwright.features.corpus import Corpus
from rankwright.features.tokenizer import Tokenizer
from rankwright.service.models import DeployedModel


class Corpora:
    """The documents of a file, cut into words as each model does it.

    A corpus is made for the first request that needs it; models with the same tokenizer share one.
    """

    def __init__(self, path: str | None) -> None:
        self._path, self._lock = path, threading.Lock()
        self._documents = None if path is None else read_documents(path)
        self._made: dict[Tokenizer, Corpus] = {}

    def of(self, served: DeployedModel) -> Corpus | None:
        """The corpus for a model; None without documents or without a feature set."""
        features = served.feature_set
        if self._documents is None or features is None:
            return None
        tokenizer = features.declaration.tokenizer
        with self._lock:
            if tokenizer not in self._made:
                self._made[tokenizer] = Corpus(self._documents, tokenizer=tokenizer)
            return self._made[tokenizer]
