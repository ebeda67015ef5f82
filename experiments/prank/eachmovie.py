"""Films made after EachMovie's published figures, since the data were withdrawn.

What the papers print, and the generator is fitted to: 1,628 films; 61,265 viewers with 2,811,983
ratings, 45.9 each; at most 1,455; 547 viewers with more than 300; six ratings 0, 0.2, .. 1; the
share of a viewer's films that have his or her top rating is .33, .26, .22, .20 and .18 for 10-20,
21-40, 41-60, 61-100 and more films. A lognormal number of films has two parameters: the mean and
the share above 300 give them (the median is then 28). Tastes, the noise and the shares of the
ratings other than the highest are assumptions; nothing was fitted to results of the papers.
"""

from __future__ import annotations

import numpy as np
from experiments.prank.movies import Viewers
from scipy import sparse

FILMS, VIEWERS, MOST = 1628, 61_265, 1455
MEDIAN, SPREAD = 27.7, 1.006  # of the number of films: mean 45.9, a share of 547 / 61,265 above 300
SHARES = (0.10, 0.06, 0.12, 0.25, 0.26, 0.21)  # of the ratings 0, 0.2, .. 1
TASTES, GENEROSITY = 5, 0.2  # viewers of few films rate them higher: fitted to the shares above


def film_counts(n: int, rng: np.random.Generator) -> np.ndarray:
    """How many films each of n viewers rated."""
    return np.clip(np.round(rng.lognormal(np.log(MEDIAN), SPREAD, n)), 1, MOST).astype(np.int64)


def made_ratings(counts: np.ndarray, rng: np.random.Generator) -> sparse.csr_array:
    """Ratings 1 .. 6 of so many films by each viewer, (n_viewers, 1628) CSR."""
    n = len(counts)
    tastes = rng.normal(size=(n, TASTES)) / np.sqrt(TASTES)
    liking = tastes @ rng.normal(size=(TASTES, FILMS)) + 0.5 * rng.normal(size=FILMS)
    liking += 0.5 * rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, FILMS))
    liking += GENEROSITY * np.log(MEDIAN / counts)[:, None]
    # Popular films are seen more often, and people see what they like.
    keys = rng.gumbel(size=(n, FILMS)) + 1.5 * rng.normal(size=FILMS) + 0.3 * liking
    seen = np.argsort(np.argsort(-keys, axis=1), axis=1) < counts[:, None]
    cuts = np.quantile(liking[seen], np.cumsum(SHARES)[:-1])
    return sparse.csr_array(np.where(seen, 1.0 + np.searchsorted(cuts, liking), 0.0))


def viewers_who_rated_more_than(least: int) -> Viewers:
    """All viewers of that kind in a made EachMovie; 0.5 is subtracted from ratings, as there."""
    rng = np.random.default_rng(0)
    counts = film_counts(VIEWERS, rng)
    stars = made_ratings(counts[counts > least], rng)
    films = stars.T.tocsr()
    films.data = (films.data - 1.0) / 5.0 - 0.5
    return Viewers(stars, films)
