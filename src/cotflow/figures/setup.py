"""What is the task, and what is the model? A schematic (the paper's Figure 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from ..config import Config
from ..task import Task
from .sources import config
from .style import BLUE, FAINT, GREY, INK, ORANGE, SEQUENTIAL, WIDTHS, Width, styled
from .words import setting

#: What is drawn in place of a large task: few enough states and steps to see.
STATES, STEPS = 5, 4


@styled
def setup(*curves: xr.Dataset, width: Width = "full") -> Figure:
    """The permutation task, a teacher sequence, and the one-block student, as a small example of the curves' configuration."""
    cfg = config(curves)
    small = Config(N=min(cfg.N, STATES), L=min(cfg.L, STEPS), d_g=2, d_h=2, n_train_seq=1, n_test_seq=1)
    task = Task(small, seed=1)
    if width == "full":
        figure = Figure(figsize=(WIDTHS[width], 3.3), layout="constrained")
        axes = list(figure.subplot_mosaic("abb;acc", width_ratios=[1, 1.35, 1.35], height_ratios=[0.85, 1]).values())
    else:
        figure = Figure(figsize=(WIDTHS[width], 6.0), layout="constrained")
        axes = list(figure.subplots(3, 1, height_ratios=[1.5, 1, 1.35]))
    for ax in axes:
        ax.axis("off")
    _permutation(axes[0], task, small)
    _sequence(axes[1], task, small)
    _student(axes[2], small)
    titles = ("one action", "a sequence by the teacher", "the student's prediction")
    for letter, ax, title in zip("abc", axes, titles, strict=True):
        ax.set_title(f"({letter})  {title}")
    return figure


def _arrow(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], color: str = INK, bend: float = 0.0, **more: Any
) -> None:
    style = {"arrowstyle": "-|>", "mutation_scale": 7, "linewidth": 0.9, "shrinkA": 1, "shrinkB": 1, **more}
    ax.add_patch(FancyArrowPatch(start, end, color=color, connectionstyle=f"arc3,rad={bend}", **style))


def _box(ax: Axes, x: float, y: float, w: float, h: float, text: str, color: str, size: float = 9) -> None:
    """A rounded box about (x, y)."""
    shape = FancyBboxPatch(
        (x - w / 2, y - h / 2), w, h, boxstyle="round,pad=0,rounding_size=0.08", facecolor=color, edgecolor="none", alpha=0.25
    )
    ax.add_patch(shape)
    ax.text(x, y, text, ha="center", va="center", fontsize=size)


def _permutation(ax: Axes, task: Task, cfg: Config) -> None:
    """Panel (a): arrows from every state to its successor, the current one picked out."""
    now = int(task.train.states[0, 0])
    action = int(task.train.actions[0, 0])
    for s in range(cfg.N):
        r = int(task.permutations[action, s])
        picked = s == now
        _arrow(ax, (0, -s), (2, -r), ORANGE if picked else GREY, linewidth=1.6 if picked else 0.8, shrinkA=9, shrinkB=9)
    for x, special in ((0, now), (2, int(task.permutations[action, now]))):
        for s in range(cfg.N):
            _box(ax, x, -s, 0.5, 0.62, str(s + 1), BLUE if s == special else FAINT)
    ax.text(0, 0.75, r"$x_\ell$", ha="center")
    ax.text(2, 0.75, r"$x_{\ell+1}$", ha="center")
    ax.text(1, 0.75, r"$\sigma_{x_j}$", ha="center")
    ax.set_xlim(-0.5, 2.5)
    ax.set_ylim(-cfg.N + 0.3, 1.25)


def _sequence(ax: Axes, task: Task, cfg: Config) -> None:
    """Panel (b): actions, then the states they lead through; an arc for every action that is applied."""
    L = cfg.L
    actions, states = task.train.actions[0] + 1, task.train.states[0] + 1
    for i in range(L):
        _box(ax, i, 0, 0.82, 0.7, rf"$\sigma_{{{actions[i]}}}$", ORANGE)
        ax.text(i, -0.72, rf"$x_{{{_of(i + 1, L)}}}$", ha="center", va="center", fontsize=8)
    for t in range(L + 1):
        x = L + 0.4 + t
        _box(ax, x, 0, 0.82, 0.7, str(states[t]), BLUE)
        ax.text(x, -0.72, rf"$x_{{{_of(L + 1 + t, L)}}}$", ha="center", va="center", fontsize=8)
        if t < L:
            _arrow(ax, (x + 0.38, 0), (x + 0.62, 0), BLUE, mutation_scale=5, shrinkA=0, shrinkB=0)
            _arrow(ax, (t, 0.4), (x + 0.5, 0.42), ORANGE, bend=-0.28, linewidth=0.7, mutation_scale=5)
    ax.text((L - 1) / 2, -1.25, "prompt: actions", ha="center", va="center", fontsize=8, color=GREY)
    ax.text(L + 0.4 + L / 2, -1.25, "initial state, then the chain to generate", ha="center", va="center", fontsize=8, color=GREY)
    ax.set_xlim(-0.5, 2 * L + 0.9)
    ax.set_ylim(-1.5, 1.75)


def _of(position: int, L: int) -> str:
    """A position as the text writes it: 1, 2, ..., L, L+1, ..., 2L+1."""
    if position == 2 * L + 1:
        return "2L+1"
    return str(position) if position < L else "L" if position == L else f"L+{position - L}"


def _student(ax: Axes, cfg: Config) -> None:
    """Panel (c): attention picks an action, the logic block applies it, the softmax predicts."""
    shades = colormaps[SEQUENTIAL](np.linspace(0.1, 0.95, 5))
    weights = np.full(cfg.L, 0)
    weights[min(1, cfg.L - 1)] = 4
    for j in range(cfg.L):
        ax.add_patch(Rectangle((0.35 * j, 1.55), 0.35, 0.35, facecolor=shades[weights[j]], edgecolor="none"))
    end = 0.35 * cfg.L
    ax.text(end / 2, 2.12, r"attention $\pi_{ij}$ over actions", ha="center", fontsize=8)
    ax.text(end / 2, 1.3, r"RoPE: lag $j - i = -L$", ha="center", va="center", fontsize=8, color=GREY)
    _arrow(ax, (end + 0.05, 1.72), (2.45, 1.72))
    _box(ax, 3.35, 1.72, 1.75, 0.62, r"$o_i = \sum_j \pi_{ij}\, v_j$", ORANGE, 8)
    _arrow(ax, (3.35, 1.4), (3.35, 0.92))
    _box(ax, 3.35, 0.6, 2.1, 0.62, r"$\tilde M_i = \sum_a (o_i)_a\, M_a$", ORANGE, 8)
    _box(ax, 0.75, 0.6, 1.5, 0.62, "one-hot state\n$e_{x_i}$", BLUE, 8)
    _arrow(ax, (1.52, 0.6), (2.28, 0.6), BLUE)
    _arrow(ax, (4.42, 0.6), (5.05, 0.6))
    _box(ax, 5.95, 0.6, 1.75, 0.62, "logits $z_{i+1}$\n" + r"$\tilde M_i\, e_{x_i}$", FAINT, 8)
    _arrow(ax, (5.95, 0.93), (5.95, 1.4))
    _box(ax, 5.95, 1.72, 1.5, 0.62, "next state\n" + r"$\hat x_{i+1}$", BLUE, 8)
    ax.text(6.05, 1.16, "argmax", ha="left", va="center", fontsize=8, color=GREY)
    ax.set_xlim(-0.1, 6.95)
    ax.set_ylim(0.1, 2.4)


def caption(*curves: xr.Dataset) -> str:
    """What is seen."""
    cfg = config(curves)
    return (
        "(a) An action token selects a permutation, which takes the current state to the next. (b) A sequence: L "
        "actions, an initial state, and the states that follow; each next state applies the action L tokens before the current "
        "state. (c) The student: RoPE attention retrieves the action at the fixed lag −L, and the logic block applies the "
        "weighted "
        f"sum of its learnable matrices to the one-hot state. Drawn for N = {min(cfg.N, STATES)} and L = {min(cfg.L, STEPS)}; "
        f"the "
        f"configuration here is {setting(cfg)}"
    )
