"""A barrier: threads that grow one tree go through the steps of its jobs together.

A job takes 10 us to 10 ms and a tree has dozens, so a thread that helps stays in compiled code from
the first job of a tree to the last. The words of a team, an int64 array with a cache line for each:

=========  =====================================================================================
TURN       how often all threads have met; CLOSED when the tree is done
ARRIVED    how many threads have come to the next meeting
TASK       how many tasks of the present step have been taken
N_THREADS  of the team; written before the first of them starts
=========  =====================================================================================

Why it is right. A thread that comes to ``meet`` adds 1 to ARRIVED and waits until TURN changes. The
last one to come resets ARRIVED and TASK, which nobody else touches then, and changes TURN. All
additions are atomic, and acquire and release: what any thread has written before a meeting, all see
after it. Between two meetings each task is taken once, and tasks of one step write to different
memory.

The grower writes a job while the other threads wait for it in ``meet``, and CLOSED after the last
one. It waits for threads that have not started yet, at the first job of a tree.
"""

from __future__ import annotations

import os

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from rankwright.runtime.kernels import njit

TURN, ARRIVED, TASK, N_THREADS, WORDS = 0, 8, 16, 24, 25
CLOSED = -1
SHARES = os.name == "posix" and not config.DISABLE_JIT  # whether several threads may meet
# How often a thread looks at TURN before it yields its CPU (10 us), and before it sleeps between
# two looks (about 1 ms more).
SPINS, YIELDS = 10_000, 2_000


def _word(context, builder, signature, args):
    """The address of words[index], the first two arguments."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _atomic_load(typing_context, words, index):
    def generate(context, builder, signature, args):
        return builder.load_atomic(_word(context, builder, signature, args), "acquire", 8)

    return types.int64(words, types.intp), generate


def _atomic_add(typing_context, words, index, amount):
    """Add to a word; returns what it was."""

    def generate(context, builder, signature, args):
        word = _word(context, builder, signature, args)
        return builder.atomic_rmw("add", word, args[2], "acq_rel")

    return types.int64(words, types.intp, types.int64), generate


if SHARES:
    atomic_load, atomic_add = intrinsic(_atomic_load), intrinsic(_atomic_add)
    yield_cpu = types.ExternalFunction("sched_yield", types.int32())
    sleep = types.ExternalFunction("usleep", types.int32(types.uint32))
else:  # one thread does all the work
    atomic_load = njit(cache=False)(lambda words, index: words[index])

    @njit(cache=False)
    def atomic_add(words, index, amount):
        words[index] += amount
        return words[index] - amount

    yield_cpu = sleep = njit(cache=False)(lambda *microseconds: 0)


@njit(cache=True, nogil=True, no_cpython_wrapper=True)
def meet(team):
    """Wait until all threads of the team are here; False if the tree is done."""
    turn, looks = atomic_load(team, TURN), 0
    if turn == CLOSED:
        return False
    if atomic_add(team, ARRIVED, 1) + 1 == team[N_THREADS]:
        team[ARRIVED] = team[TASK] = 0
        atomic_add(team, TURN, 1)
        return True
    while atomic_load(team, TURN) == turn:
        looks += 1
        if looks > SPINS + YIELDS:
            sleep(np.uint32(50))
        elif looks > SPINS:
            yield_cpu()
    return atomic_load(team, TURN) != CLOSED


@njit(cache=True, nogil=True, no_cpython_wrapper=True)
def next_task(team):
    """The number of a task that no other thread has taken since the last meeting."""
    return atomic_add(team, TASK, 1)
