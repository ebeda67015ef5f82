"""A scheduler without locks: threads share the tasks of one job after the other.

The grower of a tree opens a job for each pair of new leaves: some tasks that copy rows, then one
for each block of four features. A job takes 10 us to 10 ms and a tree has dozens, so a thread that
helps stays in compiled code from the first job of a tree to the last and looks for work in a few
words of shared memory, which it changes in one step (atomics). No task is assigned to a thread, so
nobody waits for a thread that has not started. ``python -m benchmarks.bench_trees --parts threads``
shows what that gains over one thread and over a pool that is asked once for each job.

The words of a job, an int64 array:

========  =============================================  ==========================================
word      meaning                                        written by
========  =============================================  ==========================================
TICKET    number of the job * 2**32 + its next task;     the leader, when it opens and ends a job;
          the task is WAITING between jobs, the whole    any thread that takes a task (by compare
          word CLOSED between trees                      and exchange); Python between trees
DONE      how many tasks of the job are done             the leader (0); any thread (add 1)
START,    the rows of the first leaf                     Python, before the leader opens the job
STOP
FIRST,    the slots of the sums of both leaves           the same
SECOND
N_LEAVES  one or two                                     the same
N_COPIES  how many tasks copy rows; these come first     the same
STEP      SUM histograms, SPLIT leaves by them, or BOTH  the same
========  =============================================  ==========================================

The leader is the thread that grows the tree. TICKET and DONE change all the time; each has a cache
line to itself, so that threads that only read the other words do not wait.

Why it is right. Loads of TICKET and DONE acquire, stores release, and read-modify-writes do both;
an acquire that sees a value also sees all that was written before the release that stored it, also
if other threads' read-modify-writes came in between (a release sequence).

1.  *A thread that takes a task sees the job.* The other words are plain. Python writes them, then
    the leader sets DONE to 0, then it releases the new TICKET. A thread takes a task by an exchange
    that succeeds only if TICKET still is what it has acquired; so it sees those words. It may have
    read DONE or N_COPIES too early or too late, while its ticket was already old: then the exchange
    fails. The number of the job is part of the ticket, so an old ticket never comes back (no ABA);
    it starts again with each tree, when no helper is left.
2.  *Words do not change under a task.* Python writes them only after the leader has returned, the
    leader returns only if DONE counts all tasks, and a thread adds to DONE after its last read. A
    ticket whose tasks are all taken, and WAITING, offer nothing, so nobody can start one then.
3.  *No block is scanned before all rows are copied.* Blocks are taken only if DONE >= N_COPIES.
    Tasks are taken in order and no block can be done before, so these are all the copies; each
    addition to DONE releases, so the copied rows are visible.
4.  *Tasks do not write the same memory*, but for ``best.leader``: a copy writes its own rows of
    ``gathered`` and ``copied``, a block its own range of ``sums`` and its own row of ``best``. The
    leader has acquired DONE when it returns, so the grower sees all of it.
5.  *The race on* ``best.leader`` *is harmless.* It is read and written without atomics: an aligned
    float64, which every processor that numba supports moves in one piece. It holds 0 (set before
    the job opens) or a gain that some block has reached; an update may be lost, so it may be too
    low, never too high. A feature is skipped only if its gain is below it by more than 1e-6 of it,
    and the best split is the first within 1e-9 of the largest gain; so a skipped feature is never
    the best one, and how many are skipped changes the time, not the tree.
6.  *It ends.* A helper that is cancelled before it starts has taken no task. Python writes CLOSED
    with a plain, aligned store; a helper that looks for work sees it sooner or later and returns,
    and nothing is read after it but the result of its call. The leader leaves compiled code only
    when the job is done, so an exception (Ctrl-C) in Python finds no job half done.

TICKET must be WAITING before a helper is asked for: 0 would offer the tasks of a job that is not
set up, and a thread that finished one of them after the first job had set DONE to 0 would
leave DONE wrong for good. Without the JIT, or without POSIX, one thread does all the work.
"""

from __future__ import annotations

import os

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from rankwright.runtime.kernels import njit

TICKET, DONE, START, STOP, FIRST, SECOND, N_LEAVES, N_COPIES, STEP = (
    0,
    8,
    16,
    17,
    18,
    19,
    20,
    21,
    22,
)
JOB_WORDS = 23
BOTH, SUM, SPLIT = 0, 1, 2
WAITING, CLOSED = 0xFFFFFFFF, -1
SHARES = os.name == "posix" and not config.DISABLE_JIT  # whether threads may share a job
# How often a thread looks for work before it yields its CPU (about 0.1 ms), and before it sleeps
# between two looks (about 1 ms more).
SPINS, YIELDS = 100_000, 2_000


def _word(context, builder, signature, args):
    """The address of words[index], the first two arguments."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _atomic_load(typing_context, words, index):
    def generate(context, builder, signature, args):
        word = _word(context, builder, signature, args)
        return builder.load_atomic(word, "acquire", 8)

    return types.int64(words, types.intp), generate


def _atomic_store(typing_context, words, index, value):
    def generate(context, builder, signature, args):
        word = _word(context, builder, signature, args)
        builder.store_atomic(args[2], word, "release", 8)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.int64), generate


def _compare_exchange(typing_context, words, index, old, new):
    """Write ``new`` if the word is ``old``; returns whether it was."""

    def generate(context, builder, signature, args):
        word = _word(context, builder, signature, args)
        old_and_success = builder.cmpxchg(word, args[2], args[3], "acq_rel", "acquire")
        return builder.extract_value(old_and_success, 1)

    return types.boolean(words, types.intp, types.int64, types.int64), generate


def _atomic_add(typing_context, words, index, amount):
    def generate(context, builder, signature, args):
        word = _word(context, builder, signature, args)
        builder.atomic_rmw("add", word, args[2], "acq_rel")
        return context.get_dummy_value()

    return types.void(words, types.intp, types.int64), generate


def _system_call(name, *arguments):
    """Call a POSIX function of 32-bit integers and ignore its result."""

    def generate(context, builder, signature, args):
        word = ir.IntType(32)
        kind = ir.FunctionType(word, [word] * len(arguments))
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(function, [ir.Constant(word, value) for value in arguments])
        return context.get_dummy_value()

    return types.void(), generate


def _yield_cpu(typing_context):
    """Let another thread run, if one waits for this CPU."""
    return _system_call("sched_yield")


def _sleep(typing_context):
    """Leave this CPU for about 0.1 ms."""
    return _system_call("usleep", 50)


if config.DISABLE_JIT:  # then one thread does all the work

    def atomic_load(words, index):
        return int(words[index])

    def atomic_store(words, index, value):
        words[index] = value

    def compare_exchange(words, index, old, new):
        words[index] = new
        return True

    def atomic_add(words, index, amount):
        words[index] += amount

    def yield_cpu():
        pass

    sleep = yield_cpu
else:
    atomic_load, atomic_store = intrinsic(_atomic_load), intrinsic(_atomic_store)
    compare_exchange, atomic_add = intrinsic(_compare_exchange), intrinsic(_atomic_add)
    yield_cpu, sleep = intrinsic(_yield_cpu), intrinsic(_sleep)


@njit(cache=True, inline="always")
def open_job(job):
    """Offer the tasks of the job whose words are set; by the leader."""
    atomic_store(job, DONE, 0)
    atomic_store(job, TICKET, ((job[TICKET] >> 32) + 1) << 32)


@njit(cache=True, inline="always")
def next_task(job, n_blocks, is_leader):
    """Take a task, or wait for one; -1 when the job is done (for the leader) or closed."""
    idle = 0
    while True:
        ticket, done = atomic_load(job, TICKET), atomic_load(job, DONE)
        task, n_copies = ticket & 0xFFFFFFFF, atomic_load(job, N_COPIES)
        if task < n_copies or (task < n_copies + n_blocks and done >= n_copies):
            idle = 0
            if compare_exchange(job, TICKET, ticket, ticket + 1):
                return task
        elif is_leader and done == n_copies + n_blocks:
            atomic_store(job, TICKET, ticket | WAITING)
            return -1
        elif ticket < 0:
            return -1
        else:
            idle += 1
            if idle > SPINS + YIELDS:
                sleep()
            elif idle > SPINS:
                yield_cpu()


@njit(cache=True, inline="always")
def finish_task(job):
    """Count a task as done."""
    atomic_add(job, DONE, 1)
