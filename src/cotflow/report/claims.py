"""What the paper says, with the place where it says it, beside the measurement that answers it: one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from scipy.stats import kurtosis

from ..figures.derived import gaussian_accuracies, mean_field_loss_of
from ..figures.logit_histograms import saved_epochs, sequences_for, split_logits
from ..params import Params
from ..results import Results
from ..theory.limits import onset_time
from ..theory.rollout import crossing
from ..trajectory import config_of
from . import measures
from .measures import Measured
from .page import figure

Answer = Callable[[Results], Measured | None]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, or None where only the goal is ours, and how it is answered from results.

    `says` is the paper's number in its own words, `value` the same as a number where it gives one, `where` its place.
    `needs` is the ensemble that answers, `headline` a name among the first numbers of a report.
    """

    key: str
    quantity: str
    says: str
    where: str
    answer: Answer
    value: float | None = None
    headline: str = ""
    needs: str = "main"


def _first(results: Results, name: str) -> xr.Dataset | None:
    found = results.runs(name)
    return found[0] if found else None


def _theory(results: Results, tier: str) -> xr.Dataset | None:
    found = results.theory("main", tier)
    return found[0] if found else None


def of_run(measure: Callable[[xr.Dataset], Measured | None], name: str = "main") -> Answer:
    """An answer from one ensemble alone."""

    def answer(results: Results) -> Measured | None:
        run = _first(results, name)
        return None if run is None else measure(run)

    return answer


def _agreement(name: str, tier: str) -> Answer:
    def answer(results: Results) -> Measured | None:
        run, theory = _first(results, "main"), _theory(results, tier)
        error = None if run is None or theory is None else measures.distance(run, theory, name)
        if error is None:
            return None
        told = f"largest |Δ{name}| of the means, at α = {error['alpha_of_max']:.2f}; on average {error['mean']:.2g}"
        return Measured(error["max"], None, "", told)

    return answer


def _midpoint(results: Results) -> Measured | None:
    run = _first(results, "main")
    if run is None:
        return None
    formula = crossing(run.alpha.values, gaussian_accuracies(run)["rollout_accuracy"], 0.5)
    theories = (("closure", "closure, constant variances"), ("column", "tier 3"))
    return _time_of(results, run, "rollout_accuracy", theories, f"formula with measured variances: {figure(formula)}")


def _onset(results: Results) -> Measured | None:
    closure = _theory(results, "closure")
    if closure is None or closure.attrs["c_omega"] == 0:
        return None
    return Measured(onset_time(config_of(closure)), None, "α", "√(2/c_ω)/η; the text drops a factor of η")


def _lock_in(results: Results) -> Measured | None:
    run = _first(results, "main")
    if run is None:
        return None
    return _time_of(results, run, "A", (("closure", "closure"), ("column", "tier 3")))


def _time_of(results: Results, run: xr.Dataset, name: str, theories: Iterable[tuple[str, str]], *further: str) -> Measured:
    """When each seed's curve reaches 1/2, beside the curve of the mean and theories (tier, name in words)."""
    each = measures.reaches(run, name, 0.5)
    told = [each.how] if each.how else []
    told.append(f"the mean curve: {figure(measures.mean_reaches(run, name, 0.5))}")
    for tier, words in theories:
        theory = _theory(results, tier)
        if theory is not None and name in theory:
            told.append(f"{words}: {figure(measures.reaches(theory, name, 0.5).value)}")
    return Measured(each.value, each.spread, "α", "; ".join((*told, *further)))


def _during_lock_in(run: xr.Dataset) -> Measured | None:
    """A at the paper's reference time, and where its spread over seeds is largest."""
    measured = measures.at(run, "A", 1.95)
    spread = measures.curve(run, "A").std(axis=0, ddof=1) if run.sizes["seed"] > 1 else np.zeros(run.sizes["epoch"])
    if measured is None or not spread.any():
        return measured
    k = int(spread.argmax())
    return replace(measured, how=f"seeds differ most at α = {float(run.alpha[k]):.2f}: ± {figure(float(spread[k]))}")


def _s_after_lock_in(run: xr.Dataset) -> Measured | None:
    A, S = measures.curve(run, "A").mean(axis=0), measures.curve(run, "S").mean(axis=0)
    locked = int(np.argmax(A / A[-1] >= 0.99))
    if S[locked] <= 0:
        return None
    change = 100 * (S[-1] / S[locked] - 1)
    return Measured(
        float(change), None, "%", f"change of the mean S from α = {float(run.alpha[locked]):.2f} (A at 99 %) to the end"
    )


def _mean_field_loss(run: xr.Dataset) -> Measured:
    loss = measures.curve(run, "loss", "train").mean(axis=0)
    difference = measures.curve(mean_field_loss_of(run), "loss").mean(axis=0) - loss
    k = int(np.abs(difference).argmax())
    told = f"ℓ_CE at the measured A, R, S minus loss: largest for the means, at α = {float(run.alpha[k]):.2f}, loss {loss[k]:.2f}"
    return Measured(float(difference[k]), None, "nats", told)


def _positions(run: xr.Dataset) -> Measured:
    diagonal = np.diagonal(measures.curve(run, "attention"), axis1=2, axis2=3)  # (seeds, epoch, t)
    return measures.over_seeds(np.ptp(diagonal, axis=2).max(axis=1), "", "largest spread of π_tt over the steps t, over the run")


def _conserved(run: xr.Dataset) -> Measured:
    zeta = measures.curve(run, "zeta")
    return Measured(float(np.abs(zeta - zeta[:, :1]).max()), None, "", "largest change of ζ in any run")


def _gaussian(results: Results) -> Measured | None:
    run = _first(results, "snapshots")
    if run is None:
        return None
    run = run.isel(seed=0).assign_attrs(seed=int(run.seed[0]))
    cfg, k = config_of(run), int(np.argmax(run.A.values >= 0.75))
    later = min(saved_epochs(run), key=lambda epoch: abs(epoch - float(run.epoch[k])))
    context = sequences_for(cfg, run.attrs["seed"])
    start, then = (split_logits(cfg, Params.of(run, int(epoch)), context)[1] for epoch in (0, later))
    when = later * cfg.alpha_per_epoch
    other = f"{kurtosis(then):+.2f}".replace("-", "−")
    told = f"excess kurtosis of the other logits at α = 0; {other} at α = {when:.2f} (uniform: −1.2)"
    return Measured(float(kurtosis(start)), None, "", told)


def _seconds(run: xr.Dataset) -> Measured:
    cost = measures.cost(run)
    told = f"median over seeds, with every evaluation: {cost['gradients']:.0f} gradients of engine {run.attrs.get('engine')}"
    return Measured(cost["seconds"], None, "s", told)


def _robust(results: Results) -> Measured | None:
    points = results.runs("sweep")
    if not points:
        return None
    last = [measures.at_epoch(run, "rollout_accuracy", -1).value for run in points]
    return Measured(min(last), None, "", f"least mean final rollout accuracy among {len(points)} variations of the main table")


CLAIMS = (
    Claim(
        "initial_var_k",
        "Initial variance of the correct logit",
        "≈ 0.044",
        "Fig. 3",
        of_run(lambda run: measures.at_epoch(run, "var_k", 0, "train")),
        0.044,
        "initial variance, correct logit",
    ),
    Claim(
        "initial_var_o",
        "Initial variance of the other logits",
        "≈ 0.044",
        "Fig. 3",
        of_run(lambda run: measures.at_epoch(run, "var_o", 0, "train")),
        0.044,
        "initial variance, other logits",
    ),
    Claim(
        "initial_var_k_robustness",
        "The same for the second table, correct logit",
        "0.0466",
        "Fig. 8",
        of_run(lambda run: measures.at_epoch(run, "var_k", 0, "train"), "robustness"),
        0.0466,
        needs="robustness",
    ),
    Claim(
        "initial_var_o_robustness",
        "The same for the second table, other logits",
        "0.0467",
        "Fig. 8",
        of_run(lambda run: measures.at_epoch(run, "var_o", 0, "train"), "robustness"),
        0.0467,
        needs="robustness",
    ),
    Claim(
        "plateau_A",
        "A at α = 1, on the plateau",
        "near A(0) = 1/L",
        "Sec. 4.3",
        of_run(lambda run: measures.at(run, "A", 1.0)),
    ),
    Claim(
        "plateau_end",
        "End of the plateau, A = 2/L",
        "α ≈ 1",
        "Sec. 4.3",
        of_run(lambda run: measures.reaches(run, "A", 2 / config_of(run).L)),
    ),
    Claim(
        "onset_time",
        "Time scale of the onset",
        "O(1)",
        "App. H",
        _onset,
    ),
    Claim("lock_in", "Attention locks in, A = 1/2", "no number", "Fig. 2", _lock_in, None, "attention locks in, A = 1/2"),
    Claim(
        "A_195",
        "A at α = 1.95, while attention locks in",
        "no number",
        "Fig. 2",
        of_run(_during_lock_in),
        None,
        "A at α = 1.95",
    ),
    Claim("closure_A", "The theory's A agrees with simulation", "very well", "Fig. 2", _agreement("A", "closure")),
    Claim("closure_R", "The theory's R agrees with simulation", "very well", "Fig. 2", _agreement("R", "closure")),
    Claim("closure_S", "The theory's S agrees with simulation", "very well", "Fig. 2", _agreement("S", "closure")),
    Claim("S_saturates", "S after attention has locked in", "saturates", "Sec. 4.3", of_run(_s_after_lock_in)),
    Claim("positions", "Attention entries prefer no step", "no preferred step", "Sec. 4.2, Fig. 5", of_run(_positions)),
    Claim("mean_field_loss", "The mean-field loss describes the loss", "very well", "Sec. 4.2, Fig. 4", of_run(_mean_field_loss)),
    Claim("conserved", "The sum of the logits is conserved", "constant", "App. D", of_run(_conserved)),
    Claim("gaussian", "Logits are Gaussian initially and early on", "approximately", "Sec. 5", _gaussian, needs="snapshots"),
    Claim(
        "rollout_plateau",
        "Rollout accuracy before the transition",
        "near 1/N",
        "Sec. 5",
        of_run(lambda run: measures.at_epoch(run, "rollout_accuracy", 0)),
    ),
    Claim(
        "rollout_midpoint",
        "Rollout accuracy reaches 1/2",
        "theory slightly too early",
        "Fig. 3",
        _midpoint,
        None,
        "rollout accuracy reaches 1/2",
    ),
    Claim(
        "final_next_token",
        "Final next-token accuracy",
        "fully learned",
        "App. B",
        of_run(lambda run: measures.at_epoch(run, "next_token_accuracy", -1)),
        1.0,
    ),
    Claim(
        "final_rollout",
        "Final rollout accuracy",
        "saturates at unity",
        "Sec. 5",
        of_run(lambda run: measures.at_epoch(run, "rollout_accuracy", -1)),
        1.0,
        "final rollout accuracy",
    ),
    Claim("robust", "Variations of the hyperparameters learn too", "robustly", "App. B", _robust, needs="sweep"),
    Claim(
        "seconds",
        "Time to train one seed",
        "30 min on a T4, 20 min on an RTX 4060",
        "App. B",
        of_run(_seconds),
        1800.0,
        "to train one seed",
    ),
)
