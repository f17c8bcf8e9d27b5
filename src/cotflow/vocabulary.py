"""Sets of permutations: drawn at random, the elements of a group acting on N points, or a user's own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

GROUPS = ("symmetric", "cyclic", "dihedral", "alternating")
_LARGEST_GROUP = 40_320  # 8!: beyond it a table of all elements is no longer a vocabulary


def permutations(kind: str | tuple[tuple[int, ...], ...], N: int, d_g: int, rng: np.random.Generator) -> np.ndarray:
    """The action vocabulary as `permutations[a, s]`, the state that action a makes of state s; shape (d_g, N)."""
    if not isinstance(kind, str):
        return np.array(kind, dtype=np.int64)
    return random_permutations(N, d_g, rng) if kind == "random" else group_elements(kind, N)


def random_permutations(N: int, d_g: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `rng.permutation(N)` until d_g distinct ones are found, in the order drawn (the paper's recipe); (d_g, N)."""
    seen: dict[bytes, np.ndarray] = {}
    while len(seen) < d_g:
        drawn = rng.permutation(N)
        seen.setdefault(drawn.tobytes(), drawn)
    return np.array(list(seen.values()), dtype=np.int64)


def group_order(name: str, N: int) -> int:
    """Number of elements of a named group of permutations of N points; refuses what is too large or degenerate."""
    if name == "dihedral" and N < 3:
        raise ValueError(f"N = {N} is too small for vocabulary 'dihedral'; allowed: N of 3 or more")
    if name in ("symmetric", "alternating") and N > 20:
        raise ValueError(f"N = {N} is too large for vocabulary {name!r}; allowed: N up to 8")
    order = {
        "cyclic": lambda: N,
        "dihedral": lambda: 2 * N,
        "symmetric": lambda: math.factorial(N),
        "alternating": lambda: max(1, math.factorial(N) // 2),
    }[name]()
    if order > _LARGEST_GROUP:
        raise ValueError(f"N = {N} is too large for vocabulary {name!r}, which would have {order:,} elements")
    return order


def group_elements(name: str, N: int) -> np.ndarray:
    """All elements of a named group acting on N points, the identity first; shape (order, N)."""
    s = np.arange(N)
    if name == "cyclic":
        return (s[None, :] + s[:, None]) % N
    if name == "dihedral":
        rotations = (s[None, :] + s[:, None]) % N
        reflections = (s[:, None] - s[None, :]) % N
        return np.concatenate([rotations, reflections])
    every = np.array(list(itertools.permutations(range(N))), dtype=np.int64)
    return every if name == "symmetric" else every[[parity(row) == 0 for row in every]]


def parity(permutation: np.ndarray) -> int:
    """0 for an even permutation, 1 for an odd one: N minus the number of cycles, modulo 2."""
    seen, cycles = set(), 0
    for start in range(len(permutation)):
        cycles += start not in seen
        while start not in seen:
            seen.add(start)
            start = int(permutation[start])
    return (len(permutation) - cycles) % 2


def read_permutations(source: Any) -> tuple[tuple[int, ...], ...]:
    """A user's permutations, from an array, nested lists, or a .npy, .csv or .txt file, as nested tuples."""
    if isinstance(source, str | Path):
        source = _read_file(Path(source))
    try:
        table = np.asarray(source)
    except ValueError:
        raise ValueError("vocabulary has rows of different lengths; allowed: a rectangular (d_g, N) array") from None
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"vocabulary has shape {table.shape}; allowed: a non-empty (d_g, N) array, one permutation a row")
    if table.dtype.kind not in "iuf" or not np.isfinite(table).all() or not np.array_equal(table, np.rint(table)):
        raise ValueError("vocabulary holds entries that are not whole numbers; allowed: 0 to N-1")
    return check_permutations(tuple(tuple(int(x) for x in row) for row in table))


def check_permutations(rows: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Pass on rows that are distinct permutations of 0..N-1; name the first that is not."""
    N = len(rows[0]) if rows else 0
    for a, row in enumerate(rows):
        if sorted(row) != list(range(N)):
            hint = "; numbering starts at 0" if sorted(row) == list(range(1, N + 1)) else ""
            raise ValueError(f"vocabulary row {a} is not a permutation of 0 to {N - 1}{hint}")
    if len(set(rows)) < len(rows):
        repeat = next(a for a, row in enumerate(rows) if row in rows[:a])
        raise ValueError(f"vocabulary row {repeat} repeats row {rows.index(rows[repeat])}; the permutations must be distinct")
    return rows


def is_header(row: Sequence[str]) -> bool:
    """Whether a row of a file holds names, and no number."""
    return any(letter.isalpha() for entry in row for letter in entry) and not any(map(_is_number, row))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_file(path: Path) -> Any:
    """The numbers of a file, a row a line; a first line of names is skipped."""
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        lines = [
            line
            for line in path.read_text(encoding="utf-8-sig").splitlines()
            if line.strip() and not line.lstrip().startswith("#")
        ]
        rows = [line.split(",") if "," in line else line.split() for line in lines]
        return [[float(entry) for entry in row] for row in (rows[1:] if rows and is_header(rows[0]) else rows)]
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"vocabulary = {str(path)!r} is neither 'random', {', '.join(map(repr, GROUPS))} nor a readable file of "
            f"permutations ({error})"
        ) from None
