"""What rows are: their description, and the Numba types that carry their width."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.extending import NativeValue, register_model, typeof_impl, unbox

VECTOR_BYTES = 64
LEAST_LANES = 4


class Rows:
    """Description of rows of `length` numbers: `width` of them with padding, in vectors of `lanes`."""

    def __init__(self, dtype: Any, length: int, lanes: int | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self.length = length
        most = VECTOR_BYTES // self.dtype.itemsize
        self.lanes = lanes or min(most, max(LEAST_LANES, 1 << (length - 1).bit_length()))
        self.chunks = -(-length // self.lanes)
        self.width = self.lanes * self.chunks

    def __repr__(self) -> str:
        return f"Rows({self.dtype}, {self.length})"

    def table(self, n: int) -> np.ndarray:
        """Zeros of shape (n, width) that start at a vector boundary: a load that straddles cache lines costs two."""
        numbers = n * self.width
        raw = np.zeros(numbers + VECTOR_BYTES // self.dtype.itemsize, self.dtype)
        start = (-raw.ctypes.data % VECTOR_BYTES) // self.dtype.itemsize
        return raw[start : start + numbers].reshape(n, self.width)

    def mask(self) -> np.ndarray:
        """A table of one row for `keep`: all bits set where a row has numbers, none where it is padding."""
        return self._bits(np.arange(self.width) < self.length)

    def masks(self) -> np.ndarray:
        """Masks whose row k keeps the first k numbers, k = 0..width."""
        return self._bits(np.arange(self.width) < np.arange(self.width + 1)[:, None])

    def _bits(self, where: np.ndarray) -> np.ndarray:
        table = self.table(len(np.atleast_2d(where)))
        table.view(f"i{self.dtype.itemsize}")[:] = -where.astype(np.int64)
        return table


class RowsType(types.Type):
    """Numba's type of a `Rows`: carries no data at run time."""

    def __init__(self, dtype: types.Float, lanes: int, chunks: int) -> None:
        self.dtype, self.lanes, self.chunks = dtype, lanes, chunks
        super().__init__(f"Rows({dtype}, {lanes} x {chunks})")

    @property
    def row(self) -> RowType:
        """The type of a row so described."""
        return RowType(self.dtype, self.lanes, self.chunks)


class RowType(types.Type):
    """Numba's type of a row: `chunks` LLVM vectors of `lanes` numbers."""

    def __init__(self, dtype: types.Float, lanes: int, chunks: int) -> None:
        self.dtype, self.lanes, self.chunks = dtype, lanes, chunks
        super().__init__(f"Row({dtype}, {lanes} x {chunks})")

    @property
    def vector(self) -> Any:
        """The LLVM type of one chunk."""
        return ir.VectorType(ir.FloatType() if self.dtype.bitwidth == 32 else ir.DoubleType(), self.lanes)


@typeof_impl.register(Rows)
def _typeof_rows(rows: Rows, _: Any) -> RowsType:
    return RowsType(types.float32 if rows.dtype.itemsize == 4 else types.float64, rows.lanes, rows.chunks)


register_model(RowsType)(models.OpaqueModel)


@unbox(RowsType)
def _unbox_rows(typ: RowsType, obj: Any, c: Any) -> NativeValue:
    return NativeValue(c.context.get_dummy_value())


@register_model(RowType)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager: Any, row: RowType) -> None:
        super().__init__(manager, row, ir.ArrayType(row.vector, row.chunks))
