"""`cotflow rollout`: one's own action sequences through a trained student."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from ..config import Config
from ..files import write_text
from ..gradients import rollout as generate
from ..params import Params
from ..trajectory import config_of, load


def rollout(
    run: Annotated[Path, Parameter(help="A record made by `cotflow train`.")],
    /,
    *,
    input: Annotated[Path, Parameter(help="CSV, a sequence a row: g_1..g_L, s_0 and, if known, s_1..s_L.")],
    output: Annotated[Path | None, Parameter(help="Where to write the generated states; else they are printed.")] = None,
    epoch: Annotated[int | None, Parameter(help="Use the weights of a saved epoch instead of the final ones.")] = None,
    backend: str = "fused",
) -> None:
    """Generate the states of given action sequences, and compare with the targets where the file holds them."""
    record = load(run)
    if "seed" in record.dims:
        raise ValueError(f"{run} is a directory of seeds; name one of its records")
    cfg = config_of(record)
    actions, s0, targets = read_sequences(input, cfg)
    states = generate(cfg, Params.of(record, epoch), actions, s0, backend=backend)
    text = "".join(",".join(map(str, row)) + "\n" for row in states)
    if output is not None:
        write_text(output, text)
        print(f"{len(states)} sequences of states s_0..s_{cfg.L} in {output}")
    else:
        print(text, end="")
    if targets is not None:
        every, last = np.mean(states[:, 1:] == targets), np.mean(states[:, -1] == targets[:, -1])
        print(f"accuracy over {len(states)} sequences: all generated states {every:.4f}, final state {last:.4f}")


def read_sequences(path: Path, cfg: Config) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Actions (n, L), s_0 (n,) and targets (n, L) or None from a CSV file; a first row of names is skipped."""
    try:
        lines = [line for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {path} ({error})") from None
    if lines and any(letter.isalpha() for letter in lines[0]):
        lines = lines[1:]
    try:
        rows = [[int(entry) for entry in line.split(",")] for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} holds something else than whole numbers separated by commas ({error})") from None
    L = cfg.L
    widths = sorted({len(row) for row in rows})
    if widths not in ([L + 1], [2 * L + 1]):
        raise ValueError(
            f"{path} has rows of {widths or 'no'} numbers; allowed: L + 1 = {L + 1}, or 2 L + 1 = {2 * L + 1} with targets"
        )
    table = np.array(rows, dtype=np.int64)
    return table[:, :L], table[:, L], table[:, L + 1 :] if widths == [2 * L + 1] else None
