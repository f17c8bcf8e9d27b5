"""What captions say of every figure alike: how many seeds, which sources, what setting, what units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from ..config import LOOKS, Config
from ..trajectory import config_of
from .sources import config, seed_numbers, simulations, theories, tier

TIERS = {
    "closure": "the closure (tier 1), the paper's theory",
    "quenched": "the quenched mean field (tier 2)",
    "column": "the column-resolved population theory (tier 3)",
    "early": "the early regime",
    "onset": "the onset of attention learning",
}


def count(number: int, noun: str, nouns: str = "") -> str:
    """A number with its noun: 1 seed, 100 seeds; `nouns` is a plural that has no s alone."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def left_out(never: int, of: str, words: str) -> str:
    """The sentence, with a blank before it, on curves that do not reach a level; nothing where all do."""
    return f" {count(never, of)} {'does' if never == 1 else 'do'} not reach {words}." if never else ""


def in_words(parts: Sequence[str]) -> str:
    """A list as a sentence has it: a, b and c."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def seeds_in_words(data: xr.Dataset) -> str:
    """How many seeds, or which one."""
    numbers = seed_numbers(data)
    return count(len(numbers), "seed") if len(numbers) != 1 else f"seed {numbers[0]}"


def setting(cfg: Config) -> str:
    """The hyperparameters in one sentence."""
    return (
        f"N = {cfg.N}, L = {cfg.L}, d_g = {cfg.d_g}, d_h = {cfg.d_h}, η = {cfg.lr:g}, {cfg.n_train_seq:,} training and "
        f"{cfg.n_test_seq:,} test sequences; α = epochs/(d_g N), so that one unit of α is {cfg.d_g * cfg.N:,} epochs."
    )


def thin(*curves: xr.Dataset) -> str:
    """A sentence, with a blank before it, on the lines that show a theory's spread over seeds; nothing where there are none."""
    spread = any(len(seed_numbers(data)) > 1 for data in theories(curves))
    return " Thin lines are a theory's own ± one standard deviation over seeds." if spread else ""


def variances(*curves: xr.Dataset) -> str:
    """A sentence, with a blank before it, on the logit variances from which the closure has its accuracies."""
    closures = [data for data in theories(curves) if "c_omega" in data.attrs and "var_k" in data]
    if not closures:
        return ""
    if np.ptp(closures[0].var_k.values) > 0:
        return " The closure's accuracies follow from logit variances that were handed to it."
    at = float(closures[0].var_k[0])
    return f" The closure's accuracies take both logit variances as constant at their initial value, {at:.4f}."


def who(*curves: xr.Dataset, drawn: str = "mean and, shaded, ± one standard deviation") -> str:
    """Which sources are drawn, over how many seeds; `drawn` is what there is of several."""
    parts = []
    for data in simulations(curves):
        shown = drawn if len(seed_numbers(data)) > 1 else "a single run"
        parts.append(f"Simulation: {shown}, {seeds_in_words(data)} (engine {data.attrs.get('engine')}).")
    tiers = []
    for data in theories(curves):
        text = TIERS.get(str(tier(data)), str(tier(data)))
        if data.attrs.get("power", 1) == 2:
            text = "the closure with A²(1 − A)²"
        if data.attrs.get("data") == "population":
            text += " of an infinite training set"
        known = seed_numbers(data)
        tiers.append(f"{text} ({seeds_in_words(data)})" if known else text)
    if tiers:
        parts.append(f"Theory: {in_words(tiers)}.")
    return " ".join(parts)


def close(*curves: xr.Dataset, **drawn: str) -> str:
    """The end of a caption: sources and setting; `drawn` as in `who`."""
    return f"{who(*curves, **drawn)} {setting(config(curves))}{unlike(*curves)}"


def unlike(*curves: xr.Dataset) -> str:
    """A sentence, with a blank before it, on fields in which sources differ and that matter to their curves; nothing if none."""
    first, told = config(curves), []
    for field in type(first).model_fields:
        found = dict.fromkeys(getattr(each, field) for each in map(config_of, (*simulations(curves), *theories(curves))))
        if len(found) > 1 and field not in LOOKS:
            told.append(f"{field} = {in_words([str(value) for value in found])}")
    return f" Sources differ: {', '.join(told)}." if told else ""
