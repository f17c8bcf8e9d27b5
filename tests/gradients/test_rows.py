"""Rows in SIMD registers do what their NumPy meanings say, in both precisions and with padding."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from cotflow.gradients.rows import (
    Rows,
    convert,
    exp2,
    first_equal,
    fma,
    fold,
    highest,
    keep,
    larger,
    load,
    log2,
    peek,
    poke,
    splat,
    store,
    sum_each,
    total,
    zeros,
)

KINDS = [Rows(np.float32, 17), Rows(np.float64, 3)]


@njit(error_model="numpy")
def elementwise(rows, x, y, mask, out):
    """Each operation's result is a row of `out`."""
    a, b = load(rows, x, 0), load(rows, y, 0)
    store(out, 0, a + b)
    store(out, 1, a - b)
    store(out, 2, a * b)
    store(out, 3, a / b)
    store(out, 4, fma(a, b, splat(rows, 2.0)))
    store(out, 5, larger(a, b))
    store(out, 6, keep(a, load(rows, mask, 0)))
    store(out, 7, zeros(rows))
    store(out, 8, exp2(a))
    store(out, 9, log2(larger(a, splat(rows, 0.0) - a)))


@njit(error_model="numpy")
def functions(rows, x, powers, logarithms):
    for i in range(len(x)):
        store(powers, i, exp2(load(rows, x, i)))
        store(logarithms, i, log2(load(rows, x, i)))


@njit(error_model="numpy")
def reductions(rows, lanes, wide, x, partial, out, wider):
    for i in range(partial.shape[0]):
        store(partial, i, fold(lanes, load(rows, x, i)))
    store(out, 0, sum_each(lanes, partial))
    row = load(rows, x, 0)
    store(wider, 0, convert(wide, row))
    poke(x, 1, peek(x, 0) + 1.0)
    return total(row), highest(row), first_equal(row, highest(row)), first_equal(row, 1e9), peek(x, 1)


@pytest.mark.parametrize("rows", KINDS, ids=str)
def test_operations_agree_with_numpy(rows):
    rng = np.random.default_rng(0)
    x, y, out = rows.table(1), rows.table(1), rows.table(10)
    x[:], y[:] = rng.normal(size=x.shape), rng.normal(size=y.shape)
    elementwise(rows, x, y, rows.mask(), out)
    a, b = x[0], y[0]
    inside = np.arange(rows.width) < rows.length
    expected = [
        a + b,
        a - b,
        a * b,
        a / b,
        a * b + 2,
        np.maximum(a, b),
        np.where(inside, a, 0),
        0 * a,
        np.exp2(a),
        np.log2(abs(a)),
    ]
    np.testing.assert_allclose(out, expected, rtol=0, atol=8 * np.finfo(rows.dtype).eps * abs(np.array(expected)).max())


@pytest.mark.parametrize("rows", KINDS, ids=str)
def test_powers_and_logarithms_are_good_to_two_units_in_the_last_place(rows):
    largest = 125.0 if rows.dtype.itemsize == 4 else 1021.0
    x = rows.table(500)
    x[:] = np.random.default_rng(1).uniform(-largest, largest, x.shape)
    powers, logarithms = rows.table(500), rows.table(500)
    functions(rows, x, powers, logarithms)
    eps = np.finfo(rows.dtype).eps
    np.testing.assert_allclose(powers, np.exp2(x.astype(np.longdouble)).astype(np.float64), rtol=2 * eps)
    functions(rows, powers, x, logarithms)
    np.testing.assert_allclose(logarithms, np.log2(powers.astype(np.float64)), rtol=2 * eps, atol=2 * eps)


@pytest.mark.parametrize("rows", KINDS, ids=str)
def test_what_is_not_a_number_stays_so(rows):
    x, powers, logarithms = rows.table(1), rows.table(1), rows.table(1)
    x[0, :3] = np.nan, np.inf, 1.0
    functions(rows, x, powers, logarithms)
    assert np.isnan(powers[0, 0])
    assert not np.isfinite(logarithms[0, :2]).any()
    assert (powers[0, 2], logarithms[0, 2]) == (pytest.approx(2.0, rel=1e-6), 0.0)


@pytest.mark.parametrize("rows", KINDS, ids=str)
def test_reductions_agree_with_numpy(rows):
    lanes, wide = Rows(rows.dtype, rows.lanes, rows.lanes), Rows(np.float64, rows.length, rows.lanes)
    x = rows.table(rows.lanes)
    x[:] = np.random.default_rng(2).integers(-9, 9, x.shape)  # whole numbers: sums are exact in any order
    x[0, [1, 2]] = 20.0
    kept = x.copy()
    sums, wider = lanes.table(1), wide.table(1)
    whole, top, place, nowhere, poked = reductions(rows, lanes, wide, x, lanes.table(rows.lanes), sums, wider)
    np.testing.assert_array_equal(sums[0], kept.sum(axis=1))
    np.testing.assert_array_equal(wider[0], kept[0])
    assert (whole, top, place, nowhere) == (kept[0].sum(), 20.0, 1, 0)
    assert poked == kept[0, 0] + 1


@pytest.mark.parametrize("length", [1, 2, 5, 16, 17, 128])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_padded_to_whole_vectors_at_vector_boundaries(dtype, length):
    rows = Rows(dtype, length)
    table = rows.table(3)
    assert rows.width == rows.lanes * rows.chunks
    assert length <= rows.width < length + max(rows.lanes, 4)
    assert (table.shape, table.dtype, table.flags.c_contiguous) == ((3, rows.width), dtype, True)
    assert table.ctypes.data % 64 == 0
    bits = rows.masks().view(f"i{rows.dtype.itemsize}")
    np.testing.assert_array_equal((bits != 0).sum(axis=1), np.arange(rows.width + 1))
