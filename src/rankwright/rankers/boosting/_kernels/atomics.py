"""What threads inside compiled code agree by: a word of shared memory, changed in one step.

values  an array of int64; ``place`` is the number of the word in it
"""

from __future__ import annotations

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic


def _word(context, builder, signature, args):
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _read(typing_context, values, place):
    def generate(context, builder, signature, args):
        word = _word(context, builder, signature, args)
        return builder.load_atomic(word, "acquire", 8)

    return types.int64(values, types.intp), generate


def _write(typing_context, values, place, value):
    def generate(context, builder, signature, args):
        word = _word(context, builder, signature, args)
        builder.store_atomic(args[2], word, "release", 8)
        return context.get_dummy_value()

    return types.void(values, types.intp, types.int64), generate


def _replace(typing_context, values, place, old, new):
    """Write ``new`` if the word is ``old``; returns whether it was."""

    def generate(context, builder, signature, args):
        word = _word(context, builder, signature, args)
        found = builder.cmpxchg(word, args[2], args[3], "acq_rel", "acquire")
        return builder.extract_value(found, 1)

    return types.boolean(values, types.intp, types.int64, types.int64), generate


def _add(typing_context, values, place, amount):
    def generate(context, builder, signature, args):
        word = _word(context, builder, signature, args)
        builder.atomic_rmw("add", word, args[2], "acq_rel")
        return context.get_dummy_value()

    return types.void(values, types.intp, types.int64), generate


def _system_call(name, *arguments):
    """A call of a POSIX function of 32-bit integers, whose answer is not read."""

    def generate(context, builder, signature, args):
        word = ir.IntType(32)
        kind = ir.FunctionType(word, [word] * len(arguments))
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(function, [ir.Constant(word, value) for value in arguments])
        return context.get_dummy_value()

    return types.void(), generate


def _give_way(typing_context):
    """Let another thread run, if one waits for this CPU."""
    return _system_call("sched_yield")


def _sleep(typing_context):
    """Leave this CPU for about 0.1 ms."""
    return _system_call("usleep", 50)


if config.DISABLE_JIT:  # then one thread does all the work

    def read(values, place):
        return int(values[place])

    def write(values, place, value):
        values[place] = value

    def replace(values, place, old, new):
        values[place] = new
        return True

    def add(values, place, amount):
        values[place] += amount

    def give_way():
        pass

    sleep = give_way
else:
    read, write, replace, add = map(intrinsic, (_read, _write, _replace, _add))
    give_way, sleep = intrinsic(_give_way), intrinsic(_sleep)
