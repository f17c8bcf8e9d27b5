"""What several commands share: every Config field as a flag, seeds, a starting point."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, Token

from ..config import PRESETS, Config

_HELP = {
    "N": "Number of states.",
    "L": "Number of steps.",
    "d_g": "Number of permutations in the vocabulary.",
    "d_h": "Head dimension of keys and queries (even).",
    "d_model": "Dimension of the token embedding.",
    "n_train_seq": "Number of training sequences.",
    "n_test_seq": "Number of test sequences.",
    "n_eval_seq": "Training sequences in the train split's accuracies.",
    "batch_size": "Sequences a gradient; n_train_seq is full batch.",
    "optimizer": "sgd or adamw.",
    "lr": "Learning rate eta.",
    "weight_decay": "Weight decay.",
    "rope_theta": "Base of the RoPE frequencies.",
    "rope_law": "power-2pi, power or linear.",
    "train_epochs": "Number of epochs.",
    "eval_every": "Epochs between evaluations.",
    "fix_embedding": "Hold embeddings at unity.",
    "dtype": "float32 or float64.",
    "vocabulary": "random, symmetric, cyclic, dihedral, alternating, or a file of permutations.",
    "init_variance": "Variance of the uniform initial weights.",
    "freeze": "none, attention or logic.",
}


def _as_written(name: str) -> str:
    return name


def _fields() -> type:
    """A dataclass with every Config field, None where it is not given; values are checked by Config itself."""
    fields, main = [], Config.preset("main")
    for name, field in Config.model_fields.items():
        kind = bool if field.annotation is bool else str
        shown = "INT" if field.annotation is int else "FLOAT" if field.annotation is float else None
        note = Parameter(help=f"{_HELP.get(name, '')} [{getattr(main, name)}]".strip(), group="Configuration", metavar=shown)
        fields.append((name, Annotated[kind | None, note], dataclasses.field(default=None)))
    made = dataclasses.make_dataclass("Fields", fields, kw_only=True)
    made.__module__ = __name__  # a class of the standard library's `types` would not be taken for a set of flags
    return made


if TYPE_CHECKING:

    class Fields:
        """Every Config field, None where it is not given."""

else:
    Fields = Parameter(name="*", name_transform=_as_written)(_fields())


def _whole(kind: Any, tokens: Sequence[Token]) -> int:
    """A whole number, also as 1e4; Cyclopts itself rounds what is none."""
    [token] = tokens
    number = _number(token.value.removeprefix("-"))
    if not isinstance(number, int):
        raise ValueError(f"{token.value!r} is not allowed; allowed: whole numbers")
    return -number if token.value.startswith("-") else number


Whole = Annotated[int | None, Parameter(converter=_whole)]
PresetFlag = Annotated[str | None, Parameter(help=f"Start from a preset: {', '.join(PRESETS)}. [main]", group="Configuration")]
ConfigFlag = Annotated[Path | None, Parameter(help="Start from a TOML file of fields.", group="Configuration")]
#: How seeds are written.
SEEDS = "Seeds, as 0:100 (100 excluded) or 0,3,7; 4 is the one seed 4."
SeedsFlag = Annotated[str | None, Parameter(help=SEEDS)]


def build_config(preset: str | None, config: Path | None, fields: Fields | None = None) -> Config:
    """The configuration of a preset or a file, with the given flags on top."""
    if preset is not None and config is not None:
        raise ValueError("--preset and --config exclude each other; a key `preset` in the file does both")
    base = Config.from_toml(config) if config is not None else Config.preset(preset or "main")
    given = {} if fields is None else {k: v for k, v in vars(fields).items() if v is not None}
    return base.replace(**{key: _number(value) for key, value in given.items()})


def _number(value: Any) -> Any:
    """Whole numbers as such, so that 1e4 and 32_768 are what they look like; all else is left to Config."""
    if isinstance(value, str) and re.fullmatch(r"[0-9][0-9_]*(\.[0-9]*)?([eE][+-]?[0-9]+)?", value):
        number = float(value.replace("_", ""))
        return int(number) if number.is_integer() and number < 2**53 else number
    return value
