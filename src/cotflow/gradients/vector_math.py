"""LLVM code for functions of one SIMD vector: exponential, logarithm, reductions.

Each function takes an `ir.IRBuilder` and vector values of one float type, and returns the value that it emitted. All of it is
generic LLVM without fast-math flags, so that it lowers to whatever the machine has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.polynomial import Chebyshev, Polynomial

INT32 = ir.IntType(32)
Builder = Any  # llvmlite comes without types: an ir.IRBuilder,
Value = Any  # and a vector or scalar ir.Value that it emitted


class _Format:
    """What exponential and logarithm need to know of a float format."""

    def __init__(self, bits: int, mantissa: int, powers: Any, log_terms: int) -> None:
        self.integer = ir.IntType(bits)
        self.mantissa = mantissa
        self.bias = 2 ** (bits - mantissa - 2) - 1
        self.exp_coefficients = powers
        self.log_coefficients = [2.0 / math.log(2) / (2 * k + 1) for k in range(log_terms)]

    @staticmethod
    def of(vector: Any) -> _Format:
        return SINGLE if isinstance(vector.element, ir.FloatType) else DOUBLE


# 2^r on [-1/2, 1/2]: by Chebyshev interpolation, a term shorter than the series, or by the series, whose terms are exact
SINGLE = _Format(32, 23, Chebyshev.interpolate(np.exp2, 6, domain=[-0.5, 0.5]).convert(kind=Polynomial).coef, log_terms=5)
DOUBLE = _Format(64, 52, [math.log(2) ** k / math.factorial(k) for k in range(14)], log_terms=11)


def _constant(vector: Any, x: Any) -> ir.Constant:
    if isinstance(vector.element, ir.FloatType):
        x = float(np.float32(x))
    return ir.Constant(vector, [x] * vector.count)


def _intrinsic(builder: Builder, name: str, *args: Value) -> Value:
    vector = args[0].type
    full_name = f"{name}.v{vector.count}f{_Format.of(vector).integer.width}"
    function = builder.module.globals.get(full_name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(vector, [a.type for a in args]), full_name)
    return builder.call(function, args)


def fma(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    """The sum a b + c, in one rounding where the machine can (elsewhere llvm.fma would be a call for each number)."""
    return _intrinsic(builder, "llvm.fmuladd", a, b, c)


def larger(builder: Builder, a: Value, b: Value) -> Value:
    """The larger of a and b; a where a is NaN."""
    return builder.select(builder.fcmp_ordered("<", a, b), b, a)


def keep(builder: Builder, a: Value, mask: Value) -> Value:
    """The bits of a where `mask` has bits set: a itself where they all are, 0 where none is."""
    integers = ir.VectorType(_Format.of(a.type).integer, a.type.count)
    return builder.bitcast(builder.and_(builder.bitcast(a, integers), builder.bitcast(mask, integers)), a.type)


def exp2(builder: Builder, x: Value) -> Value:
    """2^x to about one unit in the last place, for |x| below 126 (single) or 1022 (double), which the caller ensures.

    x = n + r with whole n, 2^r by a polynomial. Adding 1.5 * 2^mantissa + bias rounds x to n and leaves n + bias in the lowest
    bits of the sum; shifted into the place of the exponent they are 2^n. NaN stays NaN through the product.
    """
    form, vector = _Format.of(x.type), x.type
    integers = ir.VectorType(form.integer, vector.count)
    magic = _constant(vector, 1.5 * 2.0**form.mantissa + form.bias)
    shifted = builder.fadd(x, magic)
    r = builder.fsub(x, builder.fsub(shifted, magic))
    power = builder.shl(builder.bitcast(shifted, integers), ir.Constant(integers, [form.mantissa] * vector.count))
    return builder.fmul(_polynomial(builder, r, form.exp_coefficients), builder.bitcast(power, vector))


def log2(builder: Builder, x: Value) -> Value:
    """Logarithm to base 2 of positive, normal x; NaN for NaN and infinity.

    x = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = 2 artanh((m - 1) / (m + 1)) by its series.
    """
    form, vector = _Format.of(x.type), x.type
    integers = ir.VectorType(form.integer, vector.count)
    places = ir.Constant(integers, [form.mantissa] * vector.count)
    bits = builder.bitcast(x, integers)
    root_half = ir.Constant(integers, [_bits_of_root_half(form)] * vector.count)
    e = builder.ashr(builder.sub(bits, root_half), places)
    m = builder.bitcast(builder.sub(bits, builder.shl(e, places)), vector)
    one = _constant(vector, 1.0)
    s = builder.fdiv(builder.fsub(m, one), builder.fadd(m, one))
    series = _polynomial(builder, builder.fmul(s, s), form.log_coefficients)
    out = fma(builder, s, series, builder.sitofp(e, vector))
    return builder.fadd(out, builder.fsub(x, x))  # x - x: 0, or NaN where the bit arithmetic has lost one


def _bits_of_root_half(form: _Format) -> int:
    value = np.float32(math.sqrt(0.5)) if form is SINGLE else np.float64(math.sqrt(0.5))
    return int(value.view(np.int32 if form is SINGLE else np.int64))


def _polynomial(builder: Builder, x: Value, coefficients: Any) -> Value:
    """Estrin's scheme: neighbours combined with x, then with x^2, x^4, ...; half the latency of Horner's."""
    terms = [_constant(x.type, c) for c in coefficients]
    while len(terms) > 1:
        pairs = [fma(builder, high, x, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[2 * len(pairs) :]
        x = builder.fmul(x, x)
    return terms[0]


def tree(combine: Callable[[Value, Value], Value], values: list[Value]) -> Value:
    """Combine values pairwise, neighbours first."""
    while len(values) > 1:
        pairs = [combine(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(values) & ~1 :]
    return values[0]


def _shuffle(builder: Builder, a: Value, b: Value, places: Any) -> Value:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT32, len(places)), list(places)))


def transposed_sum(builder: Builder, vectors: list[Value]) -> Value:
    """The vector whose k-th number is the sum of the k-th of as many vectors as there are lanes."""
    n = vectors[0].type.count

    def add_neighbours(a: Value, b: Value) -> Value:
        return builder.fadd(_shuffle(builder, a, b, range(0, 2 * n, 2)), _shuffle(builder, a, b, range(1, 2 * n, 2)))

    return tree(add_neighbours, vectors)


def reduce(builder: Builder, combine: Callable[[Value, Value], Value], vectors: list[Value]) -> Value:
    """All numbers of some vectors combined into one: vectors with each other, then upper half with lower half."""
    out = tree(combine, vectors)
    width = out.type.count
    while width > 1:
        width //= 2
        out = combine(_shuffle(builder, out, out, range(width)), _shuffle(builder, out, out, range(width, 2 * width)))
    return builder.extract_element(out, ir.Constant(INT32, 0))


def first_equal(builder: Builder, vectors: list[Value], sought: Value) -> Value:
    """Index, counted over all vectors, of the first number that equals those of `sought`; 0 where none does."""
    int64, lanes = ir.IntType(64), sought.type.count
    out = ir.Constant(int64, 0)
    for c in reversed(range(len(vectors))):
        mask = builder.bitcast(builder.fcmp_ordered("==", vectors[c], sought), ir.IntType(lanes))
        mask = builder.zext(mask, int64) if lanes < 64 else mask
        place = builder.add(builder.cttz(mask, ir.Constant(ir.IntType(1), 0)), ir.Constant(int64, c * lanes))
        out = builder.select(builder.icmp_unsigned("!=", mask, ir.Constant(int64, 0)), place, out)
    return out
