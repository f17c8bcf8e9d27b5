"""`cotflow theory`: any tier of the theory for any configuration, printed, saved and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

from .options import ConfigFlag, Fields, PresetFlag, SeedsFlag, Whole, build_config

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

    from ..config import Config

#: Columns of the printed table, with the heads they have there, as far as a tier predicts them.
COLUMNS = {
    "A": "A",
    "R": "R",
    "S": "S",
    "loss": "loss",
    "next_token_accuracy": "next token",
    "rollout_accuracy": "rollout",
}
#: What each tier is, in the first line of what is printed.
NAMES = {
    "closure": "tier 1, the paper's closure",
    "quenched": "tier 2, quenched mean field",
    "column": "tier 3, column-resolved theory",
    "early": "the early regime of the closure",
    "onset": "the onset of attention learning",
}
#: Which tiers take which of the options that not all of them have.
TAKEN_BY = {
    "zeta": ("closure",),
    "variances": ("closure",),
    "tau": ("closure",),
    "power": ("closure",),
    "data": ("quenched", "column"),
    "noise": ("quenched",),
    "contexts": ("column",),
    "draws": ("quenched", "column"),
}
ROWS = 12
#: Figures that a theory alone suffices for, with what they show of it.
FIGURES = {
    "order_parameters": ("A", "R", "S"),
    "accuracies": ("next_token_accuracy", "rollout_accuracy"),
    "logits_and_loss": ("mu_k", "mu_o", "loss"),
}


def theory(
    tier: Annotated[str, Parameter(help="closure, quenched, column, early or onset.")],
    /,
    *,
    seed: Annotated[Whole, Parameter(help="Whose initial weights tiers 2 and 3 start from; those of --over, or 0.")] = None,
    seeds: SeedsFlag = None,
    draws: Annotated[Whole, Parameter(help="Instead of seeds: so many drawn at random.")] = None,
    data: Annotated[
        str | None, Parameter(help="training: tiers 2 and 3 know the seed's training set by a few numbers; population: nothing.")
    ] = None,
    noise: Annotated[str | None, Parameter(help="Tier 2: averaged, or mean for the simpler form.")] = None,
    contexts: Annotated[Whole, Parameter(help="Tier 3: sequences on which accuracies are measured.")] = None,
    power: Annotated[Whole, Parameter(help="Tier 1: 2 closes with A²(1-A)².")] = None,
    tau: Annotated[float | None, Parameter(help="Tier 1: overlap of different teacher matrices; 1/N by default.")] = None,
    zeta: Annotated[float | None, Parameter(help="Tier 1: the conserved sum of the logits; 0 by default.")] = None,
    variances: Annotated[
        Path | None, Parameter(help="Tier 1: a record, a directory of them or a saved tier 3 whose logit variances it takes.")
    ] = None,
    out: Annotated[Path | None, Parameter(help="Save the trajectory as an .npz file that cf.load reads.")] = None,
    plot: Annotated[Path | None, Parameter(help="Draw it into a .png, .pdf or .svg file.")] = None,
    figure: Annotated[
        str | None, Parameter(help="Which figure to draw: order_parameters (unless told), accuracies, logits_and_loss.")
    ] = None,
    over: Annotated[Path | None, Parameter(help="A record, or a directory of them, to draw it over.")] = None,
    preset: PresetFlag = None,
    config: ConfigFlag = None,
    fields: Fields | None = None,
) -> None:
    """Solve a tier of the mean-field theory: print its curve, and save or draw it where that is asked for."""
    given = {"zeta": zeta, "tau": tau, "power": power, "data": data, "noise": noise, "contexts": contexts, "draws": draws}
    options: dict[str, Any] = {name: value for name, value in {**given, "variances": variances}.items() if value is not None}
    chosen = chosen_seeds(tier, seed, seeds, options)
    own = seed is None and seeds is None and draws is None
    _check_files(out, plot, figure, over)
    from ..theory import solve
    from ..trajectory import load

    runs = [] if over is None else [load(over, weights=False)]
    cfg = configuration(preset, config, fields, over, runs)
    if runs and own and chosen is not None:
        chosen = runs[0].seed.values.tolist() if "seed" in runs[0].dims else runs[0].attrs.get("seed", chosen)
    if variances is not None:
        options["variances"] = load(variances, weights=False)
    solution = solve(tier, cfg, chosen, **options)
    figure = figure or "order_parameters"
    if plot is not None and not any(name in solution for name in FIGURES[figure]):
        raise ValueError(f"tier {tier!r} predicts nothing that the figure {figure!r} shows ({', '.join(FIGURES[figure])})")
    _print(tier, solution)
    if out is not None:
        from ..trajectory import save

        print(f"saved in {save(solution, out)}")
    if plot is not None:
        print(f"drawn in {draw([*runs, solution], plot, figure)}")


def configuration(
    preset: str | None, config: Path | None, fields: Fields | None, over: Path | None, runs: Sequence[xr.Dataset]
) -> Config:
    """What the flags say; that of the simulation which the curve is drawn over, where they say nothing."""
    from ..config import LOOKS
    from ..identity import in_words
    from ..trajectory import config_of

    silent = preset is None and config is None and (fields is None or not any(v is not None for v in vars(fields).values()))
    cfg = config_of(runs[0]) if runs and silent else build_config(preset, config, fields)
    for run in runs:
        different = {key: pair for key, pair in config_of(run).difference(cfg).items() if key not in LOOKS}
        if different:
            raise ValueError(f"{over} is of another configuration ({in_words(different)}); without any fields its own is taken")
        if run.attrs.get("started_from") == "given weights":
            raise ValueError(f"{over} starts from given weights, not from its seed's own; `cotflow figures` draws its theories")
    return cfg


def chosen_seeds(tier: str, seed: int | None, seeds: str | None, options: dict[str, Any]) -> int | list[int] | None:
    """The seeds of a tier that knows them, None for draws; refuses options that the tier does not take."""
    from ..seeds import parse_seeds

    if tier not in NAMES:
        raise ValueError(f"tier = {tier!r} does not exist; allowed: {', '.join(NAMES)}")
    seeded = tier in TAKEN_BY["draws"]
    wrong = [name for name in options if tier not in TAKEN_BY[name]]
    wrong += [name for name, value in (("seed", seed), ("seeds", seeds)) if value is not None and not seeded]
    if wrong:
        raise ValueError(f"tier {tier!r} takes no {', '.join(wrong)}")
    if sum(value is not None for value in (seed, seeds, options.get("draws"))) > 1:
        raise ValueError("--seed, --seeds and --draws exclude each other")
    if not seeded or "draws" in options:
        return None
    return parse_seeds(seeds) if seeds is not None else 0 if seed is None else seed


def draw(curves: Sequence[xr.Dataset], path: Path, name: str) -> Path:
    """Draw a solution, over simulations if there are any, in a figure that needs no others."""
    from .. import figures

    [drawn] = figures.save(getattr(figures, name)(*curves), path)
    return drawn


def _check_files(out: Path | None, plot: Path | None, name: str | None, over: Path | None) -> None:
    if name is not None and name not in FIGURES:
        raise ValueError(f"figure = {name!r} is not allowed; allowed: {', '.join(FIGURES)}")
    if out is not None and out.suffix != ".npz":
        raise ValueError(f"out = {str(out)!r} is not allowed; allowed: a file whose name ends with .npz")
    if plot is not None and plot.suffix not in (".png", ".pdf", ".svg"):
        raise ValueError(f"plot = {str(plot)!r} is not allowed; allowed: a file whose name ends with .png, .pdf or .svg")
    for flag, value in (("--figure", name), ("--over", over)):
        if value is not None and plot is None:
            raise ValueError(f"{flag} needs --plot")


def _print(tier: str, solution: xr.Dataset) -> None:
    from rich.console import Console

    console = Console(width=None if Console().is_terminal else 80, highlight=False)
    console.print(_title(tier, solution), markup=False)
    console.print(table(solution))
    for name, words in (("A", "A = 1/2"), ("rollout_accuracy", "rollout accuracy 1/2")):
        if name in solution:
            console.print(f"{words} {_when(solution, name)}", markup=False)


def _title(tier: str, solution: xr.Dataset) -> str:
    attrs, parts = solution.attrs, [NAMES[tier]]
    if "seed" in solution.dims:
        parts.append(f"{solution.sizes['seed']} seeds, mean (standard deviation in its last digits)")
    elif "seed" in attrs:
        parts.append(f"seed {attrs['seed']}")
    if "data" in attrs:
        known = {"training": "knows its training set by a few numbers", "population": "infinite training set"}
        parts.append(f"data = {attrs['data']} ({known[attrs['data']]})")
    return "; ".join(parts)


def table(solution: xr.Dataset) -> Table:
    """A dozen rows of the curve, equally spaced in training time."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    names = [name for name in COLUMNS if name in solution]
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for head in ("alpha", *(COLUMNS[name] for name in names)):
        shown.add_column(head, justify="right", no_wrap=True)
    last = solution.sizes["epoch"] - 1
    for k in sorted({round(i * last / (ROWS - 1)) for i in range(ROWS)}):
        at = solution.isel(epoch=k)
        shown.add_row(f"{float(at.alpha):.2f}", *(_number(at[name], spread=name in "ARS") for name in names))
    return shown


def _number(value: xr.DataArray, spread: bool) -> str:
    """Four digits; over seeds the mean, where there is room with its spread: 0.340(157) is 0.340 ± 0.157."""
    if "seed" not in value.dims:
        return f"{float(value):.4f}" if np.isfinite(value) else ""
    told = f"{float(value.mean()):.3f}"
    return f"{told}({1000 * float(value.std(ddof=1)):.0f})" if spread and value.sizes["seed"] > 1 else told


def _when(solution: xr.Dataset, name: str) -> str:
    """When a curve crosses 1/2; over seeds the mean and spread of those that do."""
    from ..theory.rollout import crossing

    curve, alpha = solution[name], solution.alpha.values
    rows = curve.transpose("seed", "epoch").values if "seed" in curve.dims else curve.values[None]
    times = np.array([crossing(alpha, row) for row in rows])
    reached = times[np.isfinite(times)]
    if len(reached) == 0:
        return "is not reached"
    told = f"at alpha = {reached.mean():.3f}" + (f" ± {reached.std(ddof=1):.3f}" if len(reached) > 1 else "")
    return told + (f" ({len(times) - len(reached)} of {len(times)} seeds never)" if len(reached) < len(times) else "")
