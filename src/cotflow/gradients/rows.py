"""Rows: short arrays of floats that Numba kernels keep in SIMD registers.

A row of N numbers is padded to a whole number of vectors of `lanes` numbers each. Its width is part of its *type*, so a kernel
that is an ordinary module-level function is compiled once for each width and served from Numba's disk cache after that. The
vectors are LLVM's generic ones: a machine without 512-bit registers takes two or four instructions where another takes one.

    rows = Rows(np.float32, 32)            # describes rows of up to 32 numbers; hand it to the kernel
    a = load(rows, table, 3)               # row 3 of a C-contiguous array (n, rows.width)
    b = splat(rows, 0.5) * a + zeros(rows)
    store(table, 4, exp2(b))

Nothing is compiled with fast-math flags: NaN and infinities go where IEEE 754 sends them. With the JIT disabled
(`NUMBA_DISABLE_JIT=1`) every operation is its NumPy meaning, given beside it, and rows are one-dimensional arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin
from numba.np.arrayobj import make_array

from . import vector_math
from .row_types import Rows as Rows
from .row_types import RowsType, RowType
from .vector_math import Builder, Value


def operation(meaning: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make an operation of a typing function that returns (signature, emitter); `meaning` says the same in NumPy."""

    def decorate(typing: Callable[..., Any]) -> Any:
        meaning.__doc__ = typing.__doc__
        return meaning if config.DISABLE_JIT else intrinsic(typing)  # pyright: ignore[reportAttributeAccessIssue]

    return decorate


def _map(builder: Builder, row: RowType, emit: Callable[..., Value], *args: Value) -> Value:
    """A row of type `row` whose chunks are `emit(builder, chunks of the arguments...)`."""
    out = ir.Constant(ir.ArrayType(row.vector, row.chunks), ir.Undefined)
    for c in range(row.chunks):
        out = builder.insert_value(out, emit(builder, *(builder.extract_value(a, c) for a in args)), c)
    return out


def _chunks(builder: Builder, row: RowType, value: Value) -> list[Value]:
    return [builder.extract_value(value, c) for c in range(row.chunks)]


def _address(context: Any, builder: Builder, row: RowType, array: Any, value: Any, index_type: Any, index: Any) -> Value:
    data = make_array(array)(context, builder, value=value).data
    index = context.cast(builder, index, index_type, types.intp)
    offset = builder.mul(index, ir.Constant(index.type, row.lanes * row.chunks))
    return builder.bitcast(builder.gep(data, [offset]), row.vector.as_pointer())


def _broadcast(builder: Builder, vector: Any, scalar: Value) -> Value:
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


@operation(lambda rows, table, i: table[i].copy())
def load(typing: Any, rows: RowsType, table: Any, i: Any) -> Any:
    """Row i of a C-contiguous table (n, width)."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        row = sig.return_type
        address = _address(context, builder, row, sig.args[1], args[1], sig.args[2], args[2])
        out = ir.Constant(ir.ArrayType(row.vector, row.chunks), ir.Undefined)
        for c in range(row.chunks):
            place = builder.gep(address, [ir.Constant(ir.IntType(64), c)])
            out = builder.insert_value(out, builder.load(place, align=row.dtype.bitwidth // 8), c)
        return out

    return rows.row(rows, table, i), emit


@operation(lambda array, i: array.flat[i])
def peek(typing: Any, array: Any, i: Any) -> Any:
    """Number i, not negative, of a C-contiguous array in memory order, without the test for an index counted from the end."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        data = make_array(array)(context, builder, value=args[0]).data
        return builder.load(builder.gep(data, [context.cast(builder, args[1], sig.args[1], types.intp)]))

    return array.dtype(array, i), emit


def _poke(array: np.ndarray, i: int, x: float) -> None:
    array.flat[i] = x


@operation(_poke)
def poke(typing: Any, array: Any, i: Any, x: Any) -> Any:
    """Make x number i, not negative, of a C-contiguous array in memory order."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        data = make_array(array)(context, builder, value=args[0]).data
        place = builder.gep(data, [context.cast(builder, args[1], sig.args[1], types.intp)])
        builder.store(context.cast(builder, args[2], sig.args[2], array.dtype), place)
        return context.get_dummy_value()

    return types.void(array, i, x), emit


def _store(table: np.ndarray, i: int, row: np.ndarray) -> None:
    table[i] = row


@operation(_store)
def store(typing: Any, table: Any, i: Any, row: RowType) -> Any:
    """Make `row` row i of a C-contiguous table (n, width)."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        address = _address(context, builder, row, sig.args[0], args[0], sig.args[1], args[1])
        for c, chunk in enumerate(_chunks(builder, row, args[2])):
            builder.store(chunk, builder.gep(address, [ir.Constant(ir.IntType(64), c)]), align=row.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(table, i, row), emit


@operation(lambda rows, x: np.full(rows.width, x, rows.dtype))
def splat(typing: Any, rows: RowsType, x: Any) -> Any:
    """A row whose every number is x."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        row = sig.return_type
        chunk = _broadcast(builder, row.vector, context.cast(builder, args[1], sig.args[1], row.dtype))
        return _map(builder, row, lambda _: chunk)

    return rows.row(rows, x), emit


@operation(lambda rows: np.zeros(rows.width, rows.dtype))
def zeros(typing: Any, rows: RowsType) -> Any:
    """A row of zeros."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        row = sig.return_type
        return ir.Constant(ir.ArrayType(row.vector, row.chunks), None)

    return rows.row(rows), emit


def _elementwise(rows_of_arguments: int, emit_chunk: Callable[..., Value]) -> Callable[..., Any]:
    """The typing function of an operation that takes rows of one type and works number by number."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        return _map(builder, sig.return_type, emit_chunk, *args)

    if rows_of_arguments == 1:
        return lambda typing, a: (a(a), emit)
    if rows_of_arguments == 2:
        return lambda typing, a, b: (a(a, b), emit)
    return lambda typing, a, b, c: (a(a, b, c), emit)


fma = operation(lambda a, b, c: a * b + c)(_elementwise(3, lambda builder, a, b, c: vector_math.fma(builder, a, b, c)))
exp2 = operation(lambda a: np.exp2(a))(_elementwise(1, vector_math.exp2))
log2 = operation(lambda a: np.log2(a))(_elementwise(1, vector_math.log2))
keep = operation(lambda a, mask: np.where(mask == 0, 0, a).astype(a.dtype))(_elementwise(2, vector_math.keep))
larger = operation(lambda a, b: np.where(a < b, b, a))(_elementwise(2, vector_math.larger))


def _arithmetic(python: Callable[..., Any], method: str) -> None:
    @infer_global(python)  # pyright: ignore[reportOptionalCall]
    class Typing(AbstractTemplate):  # pyright: ignore[reportUnusedClass]
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) == 2 and isinstance(args[0], RowType) and args[0] == args[1]:
                return signature(args[0], *args)
            return None

    @lower_builtin(python, RowType, RowType)
    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:  # pyright: ignore[reportUnusedFunction]
        return _map(builder, sig.return_type, lambda b, x, y: getattr(b, method)(x, y), *args)


for _python, _method in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv")):
    _arithmetic(_python, _method)


@operation(lambda lanes, row: row.reshape(-1, lanes.lanes).sum(axis=0))
def fold(typing: Any, lanes: RowsType, row: RowType) -> Any:
    """The chunks of a row added up: a row of one chunk."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        total = vector_math.tree(builder.fadd, _chunks(builder, row, args[1]))
        return builder.insert_value(ir.Constant(ir.ArrayType(row.vector, 1), ir.Undefined), total, 0)

    return lanes.row(lanes, row), emit


@operation(lambda lanes, table: table[: lanes.lanes].sum(axis=1))
def sum_each(typing: Any, lanes: RowsType, table: Any) -> Any:
    """The sums of the first `lanes` rows of a table of one-chunk rows, as one row.

    Halving by shuffles adds neighbours of all rows at once, at three instructions a row where a sum of its own costs ten.
    """

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        row = sig.return_type
        zero = ir.Constant(ir.IntType(64), 0)
        address = _address(context, builder, row, sig.args[1], args[1], types.intp, zero)
        parts = [
            builder.load(builder.gep(address, [ir.Constant(ir.IntType(64), k)]), align=row.dtype.bitwidth // 8)
            for k in range(row.lanes)
        ]
        total = vector_math.transposed_sum(builder, parts)
        return builder.insert_value(ir.Constant(ir.ArrayType(row.vector, 1), ir.Undefined), total, 0)

    return lanes.row(lanes, table), emit


@operation(lambda row: row.sum())
def total(typing: Any, row: RowType) -> Any:
    """The sum of a row's numbers, padding included."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        return vector_math.reduce(builder, builder.fadd, _chunks(builder, row, args[0]))

    return row.dtype(row), emit


@operation(lambda row: row.max())
def highest(typing: Any, row: RowType) -> Any:
    """The largest of a row's numbers, padding included; unspecified where there is a NaN."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        return vector_math.reduce(builder, lambda a, b: vector_math.larger(builder, a, b), _chunks(builder, row, args[0]))

    return row.dtype(row), emit


@operation(lambda row, x: int(np.argmax(row == x)))
def first_equal(typing: Any, row: RowType, x: Any) -> Any:
    """Index of the first number of a row that equals x; 0 where none does."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        sought = _broadcast(builder, row.vector, context.cast(builder, args[1], sig.args[1], row.dtype))
        return vector_math.first_equal(builder, _chunks(builder, row, args[0]), sought)

    return types.intp(row, x), emit


@operation(lambda rows, row: row.astype(rows.dtype))
def convert(typing: Any, rows: RowsType, row: RowType) -> Any:
    """The same numbers in the precision of `rows`, which has as many lanes."""

    def emit(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        wide = sig.return_type
        if wide.dtype == row.dtype:
            return args[1]
        cast = "fpext" if wide.dtype.bitwidth > row.dtype.bitwidth else "fptrunc"
        return _map(builder, wide, lambda b, x: getattr(b, cast)(x, wide.vector), args[1])

    return rows.row(rows, row), emit
