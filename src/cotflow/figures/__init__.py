"""Figures of learning curves: any simulations and theories over each other.

Every figure is a function of trajectories that returns a Matplotlib figure, at the width of a page or of a column:

    cf.figures.order_parameters(runs, cf.theory.closure(cfg), width="column")

`FIGURES` has those of a reproduction by name, with their captions and where their trajectories come from.
"""

from __future__ import annotations

from .output import save, to_svg
from .registry import FIGURES, Entry

# last, as most of these functions share their module's name
from .accuracies import accuracies  # isort: skip
from .attention_entries import attention_entries  # isort: skip
from .limits import limits  # isort: skip
from .logit_histograms import logit_histograms  # isort: skip
from .logit_variances import logit_variances  # isort: skip
from .logits_and_loss import logits_and_loss  # isort: skip
from .order_parameters import order_parameters  # isort: skip
from .rollout import rollout  # isort: skip
from .setup import setup  # isort: skip
from .single_seeds import single_seeds  # isort: skip
from .tiers import tiers  # isort: skip
from .training_set_size import training_set_size  # isort: skip
from .transition import transition  # isort: skip
from .transition_times import transition_times  # isort: skip

__all__ = [
    "FIGURES",
    "Entry",
    "accuracies",
    "attention_entries",
    "limits",
    "logit_histograms",
    "logit_variances",
    "logits_and_loss",
    "order_parameters",
    "rollout",
    "save",
    "setup",
    "single_seeds",
    "tiers",
    "to_svg",
    "training_set_size",
    "transition",
    "transition_times",
]
