"""Which combinations of a configuration's fields mean nothing, and how are faults told?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import ValidationError

from .vocabulary import GROUPS, group_order

if TYPE_CHECKING:
    from .config import Config

#: Beyond these no memory holds a run, whatever the machine.
MOST_EVALUATIONS, MOST_WEIGHTS = 10**7, 2**31


def impossible(c: Config) -> list[tuple[bool, str]]:
    """Combinations of valid fields that mean nothing, each with the sentence that says so."""
    orders = math.factorial(c.N) if c.N < 20 else math.inf
    checks = [
        (c.d_h % 2 == 1, f"d_h = {c.d_h} is odd; RoPE rotates pairs, so d_h must be even"),
        (c.d_g > orders, f"d_g = {c.d_g} exceeds the {orders} permutations of N = {c.N}; allowed: 1 to {orders}"),
        (
            c.batch_size > c.n_train_seq,
            f"batch_size = {c.batch_size} exceeds n_train_seq = {c.n_train_seq}; allowed: 1 to {c.n_train_seq}",
        ),
        (
            c.train_epochs > 0 and c.eval_every > c.train_epochs,
            f"eval_every = {c.eval_every} exceeds train_epochs = {c.train_epochs}; allowed: 1 to {c.train_epochs}",
        ),
        (
            c.train_epochs // c.eval_every > MOST_EVALUATIONS,
            f"eval_every = {c.eval_every} makes {c.train_epochs // c.eval_every:,} evaluations of train_epochs = "
            f"{c.train_epochs}; allowed: {MOST_EVALUATIONS:,} at most",
        ),
        (
            c.d_g * c.N**2 > MOST_WEIGHTS,
            f"d_g = {c.d_g} matrices of N = {c.N} states have {c.d_g * c.N**2:,} entries; allowed: {MOST_WEIGHTS:,} at most",
        ),
    ]
    if isinstance(c.vocabulary, tuple):
        shape = (len(c.vocabulary), len(c.vocabulary[0]))
        checks.append(
            (
                shape != (c.d_g, c.N),
                f"vocabulary holds {shape[0]} permutations of {shape[1]} points, but d_g = {c.d_g} and N = {c.N}; "
                "leave both out to take them from the vocabulary",
            )
        )
    elif c.vocabulary in GROUPS:
        order = group_order(c.vocabulary, c.N)
        checks.append(
            (
                c.d_g != order,
                f"d_g = {c.d_g}, but vocabulary {c.vocabulary!r} on N = {c.N} points has {order} elements; "
                f"set d_g = {order} or leave it out",
            )
        )
    return checks


def one_sentence(error: ValidationError, fields: Iterable[str]) -> str:
    """Pydantic's report as one sentence a fault: field, value, what is allowed."""
    lines = []
    for fault in error.errors():
        field = str(fault["loc"][0]) if fault["loc"] else ""
        if fault["type"] == "extra_forbidden":
            line = f"unknown field {field!r}; allowed: {', '.join(fields)}"
        elif fault["type"] == "value_error":
            line = str(fault.get("ctx", {})["error"])
        elif field == "vocabulary":
            allowed = "'random', " + ", ".join(map(repr, GROUPS)) + ", an array of permutations or a file of them"
            line = f"vocabulary = {fault['input']!r} is not allowed; allowed: {allowed}"
        else:
            line = f"{field} = {fault['input']!r} is not allowed: {fault['msg'][0].lower()}{fault['msg'][1:]}"
        if line not in lines:
            lines.append(line)
    return "; ".join(lines)
