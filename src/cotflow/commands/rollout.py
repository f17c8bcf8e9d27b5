"""`cotflow rollout`: one's own action sequences through a trained student."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from ..config import Config
from ..files import write_text
from ..gradients import rollout as generate
from ..params import Params, vector_keys
from ..trajectory import config_of, load
from ..vocabulary import is_header
from .options import Whole


def rollout(
    run: Annotated[Path, Parameter(help="A record made by `cotflow train`.")],
    /,
    *,
    input: Annotated[Path, Parameter(help="CSV, a sequence a row: g_1..g_L, s_0 and, if known, s_1..s_L.")],
    output: Annotated[Path | None, Parameter(help="Where to write the generated states; else they are printed.")] = None,
    epoch: Annotated[Whole, Parameter(help="Use the weights of a saved epoch instead of the final ones.")] = None,
    backend: Annotated[str | None, Parameter(help="fused or torch; by default the one that the weights need.")] = None,
    device: Annotated[str | None, Parameter(help="PyTorch device, such as cuda.")] = None,
) -> None:
    """Generate the states of given action sequences, and compare with the targets where the file holds them."""
    record = load(run)
    if "seed" in record.dims:
        raise ValueError(f"{run} is a directory of seeds; name one of its records")
    cfg = config_of(record)
    actions, s0, targets = read_sequences(input, cfg)
    backend = backend or ("fused" if vector_keys(cfg) and device is None else "torch")
    states = generate(cfg, Params.of(record, epoch), actions, s0, backend=backend, device=device)
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
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = [line for line in csv.reader(file) if any(entry.strip() for entry in line)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"cannot read {path} ({error})") from None
    if lines and is_header(lines[0]):
        lines = lines[1:]
    try:
        rows = [[int(entry) for entry in line] for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} holds something else than whole numbers separated by commas ({error})") from None
    L = cfg.L
    widths = sorted({len(row) for row in rows})
    if widths not in ([L + 1], [2 * L + 1]):
        raise ValueError(
            f"{path} has rows of {widths or 'no'} numbers; allowed: L + 1 = {L + 1}, or 2 L + 1 = {2 * L + 1} with targets"
        )
    for name, columns, limit in (("actions", slice(0, L), cfg.d_g), ("states", slice(L, None), cfg.N)):
        wrong = [entry for row in rows for entry in row[columns] if not 0 <= entry < limit]
        if wrong:
            raise ValueError(f"{path} holds {name} outside 0 to {limit - 1} ({wrong[0]}); numbering starts at 0")
    table = np.array(rows, dtype=np.int64)
    return table[:, :L], table[:, L], table[:, L + 1 :] if widths == [2 * L + 1] else None
