"""What the forward pass measures on a split."""

from __future__ import annotations

from typing import NamedTuple


class Statistics(NamedTuple):
    """Loss, next-token accuracy, and mean and variance of correct (k) and other (o) logits over samples and positions."""

    loss: float
    next_token_accuracy: float
    mu_k: float
    var_k: float
    mu_o: float
    var_o: float
