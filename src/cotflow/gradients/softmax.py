"""What is taken from a chunk of logits in PyTorch: loss and residual, or the sums behind a split's statistics."""

from __future__ import annotations

import torch

from .statistics import Statistics


def residual(z: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Summed cross-entropy (a float64 scalar) of logits z (B, N) at `targets` (B, 1), and dz = softmax(z) - onehot.

    The maximum is subtracted first, so that logits of any size are safe. Works in place: z becomes dz.
    """
    z.sub_(z.amax(1, keepdim=True))
    correct = z.gather(1, targets)
    norm = z.exp_().sum(1, keepdim=True)
    loss = _sum(norm.log() - correct)
    dz = z.div_(norm)
    return loss, dz.scatter_add_(1, targets, dz.new_full((1, 1), -1.0).expand_as(targets))


class Totals:
    """Sums over chunks of items; those of logits are taken about `pivot`, lest their variance drown in their mean."""

    def __init__(self, pivot: float) -> None:
        self.pivot, self.items, self.others = pivot, 0, 0
        self.sums: torch.Tensor | float = 0.0

    def add(self, z: torch.Tensor, targets: torch.Tensor) -> None:
        """Add a chunk's logits z (B, N) and targets (B, 1); z is used up."""
        hits = z.argmax(1, keepdim=True) == targets
        x = z.to(_widest(z)) - self.pivot
        x_k = x.gather(1, targets)
        x.scatter_(1, targets, 0.0)
        first, second = [_sum(x_k), _sum(x)], [_sum(x_k.square()), _sum(x.square())]
        self.sums = self.sums + torch.stack([residual(z, targets)[0], _sum(hits), *first, *second])
        self.items += len(z)
        self.others += len(z) * (z.shape[1] - 1)

    def statistics(self) -> Statistics:
        """Means and variances over everything added."""
        loss, hits, k_1, o_1, k_2, o_2 = torch.as_tensor(self.sums).tolist()
        mean_k, mean_o = k_1 / self.items, o_1 / self.others
        return Statistics(
            loss=loss / self.items,
            next_token_accuracy=hits / self.items,
            mu_k=self.pivot + mean_k,
            var_k=max(k_2 / self.items - mean_k**2, 0.0),
            mu_o=self.pivot + mean_o,
            var_o=max(o_2 / self.others - mean_o**2, 0.0),
        )


def _sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dtype=_widest(x))


def _widest(x: torch.Tensor) -> torch.dtype:
    return torch.float32 if x.device.type == "mps" else torch.float64
