"""
Grades between thresholds
=========================

An ordinal ranker learns thresholds on the scores; the grade of an item is the interval that its
score falls into.
"""

import rankwright as rw
from rankwright.data import make_ordinal

train, test = make_ordinal(2000, random_state=0), make_ordinal(500, random_state=1)
features = rw.rankers.PolynomialMap(degree=2).fit(train.X)
model = rw.PRank(average=True).fit(features.transform(train.X), train.y)

chart = rw.plot.grades(model, features.transform(test.X), test.y)
chart
