"""What is studied: every hyperparameter of a run, checked once, and the paper's two tables as presets."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from .refusals import impossible, one_sentence
from .vocabulary import GROUPS, check_permutations, group_order, read_permutations

Positive = Annotated[int, Field(ge=1, le=2**31)]
Name = Literal["random", "symmetric", "cyclic", "dihedral", "alternating"]


class Config(BaseModel):
    """One point in hyperparameter space; frozen, validated at construction, named as in the paper's tables.

    The defaults are the paper's main table. A `vocabulary` other than "random" fixes `d_g` (and a user's own permutations fix `N`
    too), so these need not be given with it.

    >>> Config.preset("main").replace(N=16, lr=0.25).N
    16
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    N: Annotated[int, Field(ge=2, le=4096)] = 32
    """Number of states; permutations act on {0, ..., N-1}."""
    L: Annotated[int, Field(ge=1, le=4096)] = 10
    """Number of steps: actions g_1..g_L, predicted states s_1..s_L."""
    d_g: Annotated[int, Field(ge=1, le=65_536)] = 32
    """Number of distinct permutations in the action vocabulary."""
    d_h: Annotated[int, Field(ge=2, le=65_536)] = 128
    """Head dimension of keys and queries; even, d_h/2 RoPE planes."""
    d_model: Annotated[int, Field(ge=1, le=65_536)] = 1
    """Dimension of the token embedding that keys and queries see; 1 in the paper."""
    n_train_seq: Positive = 32_768
    """Number of training sequences."""
    n_test_seq: Positive = 256
    """Number of test sequences."""
    n_eval_seq: Positive = 4_096
    """Training sequences that enter the train split's accuracies and logit statistics (all where there are fewer)."""
    batch_size: Positive = 32_768
    """Sequences a gradient; full batch where it equals n_train_seq."""
    optimizer: Literal["sgd", "adamw"] = "sgd"
    """Plain gradient descent, or AdamW (decoupled weight decay, betas 0.9, 0.999, eps 1e-8)."""
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.5
    """Learning rate eta."""
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Weight decay: added to the gradient under SGD, decoupled under AdamW."""
    rope_theta: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 10_000.0
    """Base of the power-law RoPE frequencies."""
    rope_law: Literal["power-2pi", "power", "linear"] = "power-2pi"
    """Frequencies w_n, n = 0..d_h/2-1: 2π θ^(-2n/d_h) (main text), θ^(-2n/d_h) (robustness), or 2π (n+1) / d_h (linear)."""
    train_epochs: Annotated[int, Field(ge=0, le=2**53)] = 20_000
    """Passes over the training set; one optimiser step each where training is full batch."""
    eval_every: Positive = 50
    """Epochs between evaluations."""
    fix_embedding: bool = True
    """Hold every token's embedding at unity; otherwise embeddings are learned and attention may depend on the tokens."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of weights and gradients."""
    vocabulary: Name | tuple[tuple[int, ...], ...] = "random"
    """Where the permutations come from: "random" (distinct, drawn by the seed), a group acting on N points, or one's own rows
    (an array, nested lists, or the path of a .npy, .csv or .txt file, read at once: the permutations themselves are kept)."""
    init_variance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1 / 3
    """Variance of the uniform initial weights; 1/3 is U(-1, 1), PyTorch's default for the model's linear layers."""
    freeze: Literal["none", "attention", "logic"] = "none"
    """Which weights stay at their initial values: none, w_q and w_k, or m."""

    def __init__(self, **fields: Any) -> None:
        fields = _fill_derived(fields)
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ValueError(one_sentence(error, type(self).model_fields)) from None

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError(f"{info.field_name} = {value!r} is not allowed; allowed: a number or a name")
        return value

    @field_validator("vocabulary", mode="after")
    @classmethod
    def _rows_are_permutations(cls, value: Any) -> Any:
        return value if isinstance(value, str) else check_permutations(value)

    @model_validator(mode="after")
    def _possible(self) -> Config:
        for wrong, message in impossible(self):
            if wrong:
                raise ValueError(message)
        return self

    @classmethod
    def preset(cls, name: str, /, **changes: Any) -> Config:
        """One of the named configurations ("main", "robustness", "smoke"), with any fields changed."""
        if name not in PRESETS:
            raise ValueError(f"preset = {name!r} does not exist; allowed: {', '.join(PRESETS)}")
        return cls(**PRESETS[name]).replace(**changes)

    def replace(self, **changes: Any) -> Config:
        """The same configuration with some fields changed, checked afresh; full batch stays full batch."""
        kept = self.model_dump()
        if self.full_batch:
            kept.pop("batch_size")
        vocabulary = changes.get("vocabulary", self.vocabulary)
        if _is_own(vocabulary):
            kept = {key: value for key, value in kept.items() if key not in ("N", "d_g")}
        elif vocabulary != "random":
            kept.pop("d_g")
        return Config(**{**kept, **changes})

    @classmethod
    def from_toml(cls, path: str | Path) -> Config:
        """Read a TOML file of fields; a key `preset` names the configuration that they change.

        A file of permutations that is not where the process is may be beside the TOML file.
        """
        try:
            with open(path, "rb") as file:
                fields = tomllib.load(file)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ValueError(f"cannot read the configuration {path}: {error}") from None
        named = fields.get("vocabulary")
        if isinstance(named, str) and not Path(named).exists() and (beside := Path(path).parent / named).exists():
            fields["vocabulary"] = str(beside)
        return cls.preset(str(fields.pop("preset", "main")), **fields)

    def to_toml(self) -> str:
        """All fields as TOML; `from_toml` gives back an equal Config."""
        return "".join(f"{key} = {json.dumps(value)}\n" for key, value in self.model_dump(mode="json").items())

    @property
    def hash(self) -> str:
        """Sixteen hex digits over every field (all of them change a result); the same on every machine.

        A version that has other fields has other hashes: what decides whether records belong together is the fields themselves.
        """
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def full_batch(self) -> bool:
        """Whether every optimiser step sees all training sequences."""
        return self.batch_size == self.n_train_seq

    @property
    def alpha_per_epoch(self) -> float:
        """Training time of one epoch, 1 / (d_g N)."""
        return 1.0 / (self.d_g * self.N)

    @property
    def eval_epochs(self) -> list[int]:
        """Epochs at which a run is evaluated: 0, eval_every, ..., and the last."""
        epochs = list(range(0, self.train_epochs + 1, self.eval_every))
        return epochs if epochs[-1] == self.train_epochs else [*epochs, self.train_epochs]

    def difference(self, other: Config) -> dict[str, tuple[Any, Any]]:
        """Fields in which two configurations differ, with both values."""
        mine, theirs = self.model_dump(), other.model_dump()
        return {key: (mine[key], theirs[key]) for key in mine if mine[key] != theirs[key]}


#: Fields that change where and how precisely a curve is looked at, not the curve.
LOOKS = {"train_epochs", "eval_every", "n_test_seq", "n_eval_seq", "dtype"}


def require_config(cfg: Any) -> None:
    """Refuse what is no configuration, such as the name of a preset."""
    if not isinstance(cfg, Config):
        raise ValueError(f"cfg = {cfg!r} is not a Config; allowed: one, such as Config.preset('smoke')")


PRESETS: dict[str, dict[str, Any]] = {
    "main": {},
    "robustness": {
        "N": 24,
        "d_g": 24,
        "d_h": 8,
        "n_test_seq": 128,
        "train_epochs": 16_000,
        "rope_law": "power",
    },
    "smoke": {
        "N": 8,
        "L": 5,
        "d_g": 8,
        "d_h": 16,
        "n_train_seq": 1_024,
        "n_test_seq": 128,
        "train_epochs": 1_500,
        "eval_every": 25,
    },
}


def _is_own(vocabulary: Any) -> bool:
    return not isinstance(vocabulary, str) or vocabulary not in ("random", *GROUPS)


def _fill_derived(fields: dict[str, Any]) -> dict[str, Any]:
    """Fill in what other fields imply: d_g (and N) by the vocabulary, batch_size by n_train_seq; read a user's permutations."""
    fields = {key: value.item() if isinstance(value, np.generic) else value for key, value in fields.items()}
    if "n_train_seq" in fields:
        fields.setdefault("batch_size", fields["n_train_seq"])
    vocabulary = fields.get("vocabulary", "random")
    N = _whole(fields.get("N", Config.model_fields["N"].default))
    if _is_own(vocabulary):
        own = read_permutations(vocabulary)
        return {"N": len(own[0]), "d_g": len(own), **fields, "vocabulary": own}
    if vocabulary in GROUPS and "d_g" not in fields and N is not None and N >= 2:
        return {**fields, "d_g": group_order(vocabulary, N)}
    return fields


def _whole(value: Any) -> int | None:
    """A whole number as pydantic reads it from 5, 5.0 or "5"; None for what is none."""
    try:
        return None if isinstance(value, bool) else TypeAdapter(int).validate_python(value)
    except ValidationError:
        return None
