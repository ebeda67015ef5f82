"""Words of a text: Unicode letters and digits in lower case, stemmed if asked for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from rankwright.data.vocabulary import is_missing
from rankwright.exceptions import CellError, DataError, ParameterError

_WORD = re.compile(r"\w+")
_BLANK = re.compile(r"\s+")
_MOST_STEMS = 200_000  # stems that are remembered


class Tokenizer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How texts are cut into words; it is stored with the model.

    A word is a run of Unicode letters, digits and underscores, after compatibility normalization
    (NFKC) and in lower case. Languages without spaces need
    :class:`~rankwright.features.NGrams` instead.

    Parameters
    ----------
    stemmer : str or None, default None
        A language of Snowball, such as ``"english"``: words are reduced to their stems. It needs
        the extra ``text``, also where the model is served.
    stop_words : tuple of str
        Words that are left out, before stemming.

    Examples
    --------
    >>> Tokenizer(stop_words=("the",)).words("The Café's  2 doors")
    ['café', 's', '2', 'doors']
    """

    stemmer: str | None = None
    stop_words: tuple[str, ...] = ()

    def words(self, text: str) -> list[str]:
        """The words of a text, in order."""
        words: list[str] = _WORD.findall(normalized(text))
        if self.stop_words:
            left_out = frozenset(self.stop_words)
            words = [word for word in words if word not in left_out]
        if self.stemmer is not None:
            words = stems(self.stemmer, words)
        return words

    def check(self) -> None:
        """Raise an error unless words can be cut in this way."""
        if self.stemmer is not None:
            _stemmer(self.stemmer)
        if not all(isinstance(word, str) for word in self.stop_words):
            raise ParameterError("Tokenizer(stop_words=...): give words.", parameter="stop_words")


def normalized(text: str) -> str:
    """A text in compatibility normalization and lower case.

    >>> normalized("ＡBC ﬁne")
    'abc fine'
    """
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).lower()


def as_line(text: str) -> str:
    """A normalized text on one line, with single blanks."""
    return _BLANK.sub(" ", normalized(text)).strip()


def stems(language: str, words: Sequence[str]) -> list[str]:
    """The stems of words, each computed once."""
    stem, known = _stemmer(language)
    if len(known) > _MOST_STEMS:
        known.clear()
    found = []
    for word in words:
        short = known.get(word)
        if short is None:
            short = known[word] = stem(word)
        found.append(short)
    return found


@cache
def _stemmer(language: str) -> tuple[Callable[[str], str], dict[str, str]]:
    try:
        import snowballstemmer
    except ImportError:
        raise DataError(
            f"the words of this model are stemmed ({language}), and snowballstemmer is not "
            "installed.",
            fix="Install it: pip install 'rankwright[text]'.",
        ) from None
    if language not in snowballstemmer.algorithms():
        known = ", ".join(sorted(snowballstemmer.algorithms()))
        raise ParameterError(
            f"Tokenizer(stemmer={language!r}): use one of {known}.", parameter="stemmer"
        )
    return snowballstemmer.stemmer(language).stemWord, {}


def text_of(name: str, row: int, cell: Any) -> str:
    """The text of a cell: missing cells are empty, the entries of a list are joined by line breaks.

    >>> text_of("title", 0, None), text_of("tags", 0, ["red", "new"]), text_of("year", 0, 1984)
    ('', 'red\\nnew', '1984')
    """
    if isinstance(cell, str):
        return cell
    if isinstance(cell, list | tuple) or getattr(cell, "ndim", 0) == 1:
        return "\n".join(text_of(name, row, part) for part in cell)
    if isinstance(cell, dict | set | bytes):
        raise CellError(name, row, cell, "text")
    return "" if is_missing(cell) else str(cell)
