"""A plain twin of the learner: the log, read from its beginning, gives the ranker."""

from __future__ import annotations

from rankwright.service.learning.live import LiveRanker
from rankwright.service.log.entries import decode_event, decode_feedback, decode_judgment


def replayed(log, plan, last=None):
    """The ranker that has learned, in log order, all feedback and the judgments that count.

    A graded judgment counts unless a later entry of the same judge takes it back, or grades the
    same document without being taken back itself. Everything is looked up in the whole log.
    """
    entries = [e for e in log.entries(("feedback", "judgment")) if last is None or e.seq <= last]
    judged = [(e, decode_judgment(e.body)) for e in entries if e.kind == "judgment"]
    undone = {
        e.key
        for e, j in judged
        if any(u.action == "undo" and u.of == e.key and x.user == e.user for x, u in judged)
    }
    left = [(e, j) for e, j in judged if j.action != "undo" and e.key not in undone]
    live = LiveRanker(plan)
    for entry in entries:
        if entry.kind == "feedback":
            event = log.find(entry.event, "event")
            shown = None if event is None else decode_event(event.body)
            live.apply(entry.seq, decode_feedback(entry.body), shown)
            continue
        judgment = decode_judgment(entry.body)
        graded = judgment.mode == "grades" and judgment.value is not None
        replaced = any(
            e.seq > entry.seq
            and e.user == entry.user
            and (j.mode, j.query, j.documents)
            == (judgment.mode, judgment.query, judgment.documents)
            for e, j in left
        )
        if graded and entry.key not in undone and not replaced:
            live.apply(entry.seq, *judgment.as_feedback())
        else:
            live.pass_over(entry.seq, taken_back=graded)
    return live
