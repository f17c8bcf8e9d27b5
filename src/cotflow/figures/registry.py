"""Every figure by name: what it draws, from which ensembles and theories, and which figure of the paper it reproduces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from . import (
    accuracies,
    attention_entries,
    limits,
    logit_histograms,
    logit_variances,
    logits_and_loss,
    order_parameters,
    rollout,
    setup,
    single_seeds,
    tiers,
    training_set_size,
    transition,
    transition_times,
)


@dataclass(frozen=True)
class Entry:
    """One figure of a reproduction.

    `sources` names ensembles ("main") that must be there, unless they are `optional`, and theories of them ("main:closure") that
    are drawn where they are.
    """

    title: str
    draw: Callable[..., Figure]
    caption: Callable[..., str]
    sources: tuple[str, ...]
    paper: str = ""
    optional: tuple[str, ...] = ()

    @property
    def ensembles(self) -> list[str]:
        """The ensembles among the sources."""
        return [source for source in self.sources if ":" not in source]


FIGURES: dict[str, Entry] = {
    "setup": Entry("Task and model", setup.setup, setup.caption, ("main",), "Figure 1"),
    "order_parameters": Entry(
        "Order parameters", order_parameters.order_parameters, order_parameters.caption, ("main", "main:closure"), "Figure 2"
    ),
    "rollout": Entry("Final rollout accuracy", rollout.rollout, rollout.caption, ("main", "main:closure"), "Figure 3"),
    "logits_and_loss": Entry(
        "Mean logits and loss", logits_and_loss.logits_and_loss, logits_and_loss.caption, ("main", "main:closure"), "Figure 4"
    ),
    "attention_entries": Entry(
        "Attention entries", attention_entries.attention_entries, attention_entries.caption, ("main",), "Figure 5"
    ),
    "logit_variances": Entry(
        "Logit variances and what follows from them",
        logit_variances.logit_variances,
        logit_variances.caption,
        ("main", "main:column"),
        "Figure 6",
    ),
    "robustness_order_parameters": Entry(
        "Second table: order parameters",
        order_parameters.order_parameters,
        order_parameters.caption,
        ("robustness", "robustness:closure"),
        "Figure 7",
    ),
    "robustness_accuracies": Entry(
        "Second table: accuracies, constant variances",
        accuracies.accuracies,
        accuracies.caption,
        ("robustness", "robustness:closure"),
        "Figure 8",
    ),
    "robustness_logit_variances": Entry(
        "Second table: accuracies, measured variances",
        logit_variances.logit_variances,
        logit_variances.caption,
        ("robustness", "robustness:column"),
        "Figure 9",
    ),
    "robustness_logits_and_loss": Entry(
        "Second table: mean logits and loss",
        logits_and_loss.logits_and_loss,
        logits_and_loss.caption,
        ("robustness", "robustness:closure"),
        "Figure 10",
    ),
    "tiers": Entry("Three tiers of theory", tiers.tiers, tiers.caption, ("main", "main:closure", "main:quenched", "main:column")),
    "robustness_tiers": Entry(
        "Second table: three tiers of theory",
        tiers.tiers,
        tiers.caption,
        ("robustness", "robustness:closure", "robustness:quenched", "robustness:column"),
    ),
    "single_seeds": Entry(
        "Single seeds, followed", single_seeds.single_seeds, single_seeds.caption, ("main", "main:quenched", "main:column")
    ),
    "transition": Entry(
        "The rollout transition", transition.transition, transition.caption, ("main", "main:closure", "main:column")
    ),
    "accuracies": Entry("Accuracies", accuracies.accuracies, accuracies.caption, ("main", "main:closure", "main:column")),
    "limits": Entry(
        "Early regime and onset", limits.limits, limits.caption, ("main", "main:closure", "main:early", "main:onset")
    ),
    "closures": Entry(
        "Two ways to close the equation for attention",
        order_parameters.order_parameters,
        order_parameters.caption,
        ("main", "main:closure", "main:closure-squared"),
    ),
    "logit_histograms": Entry(
        "How Gaussian the logits are", logit_histograms.logit_histograms, logit_histograms.caption, ("snapshots",)
    ),
    "training_set_size": Entry(
        "Theory error and training-set size",
        training_set_size.training_set_size,
        training_set_size.caption,
        (
            "main",
            "sizes",
            "main:closure",
            *(f"{name}:{tier}" for tier in ("quenched", "column") for name in ("main", "sizes")),
            "main:quenched-population",
            "main:column-population",
        ),
    ),
    "transition_times": Entry(
        "Transition times over hyperparameters",
        transition_times.transition_times,
        transition_times.caption,
        ("main", "sweep", "main:closure", "sweep:closure"),
        optional=("main",),
    ),
}
