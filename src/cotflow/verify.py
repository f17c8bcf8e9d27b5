"""Does this installation compute the right things? Checks of seconds, each with a measured figure and its limit.

Every check compares two things that were computed independently of each other, or a figure with what the mathematics demands.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from . import theory
from .checking import Result, Runs, Skipped, check
from .config import Config
from .gradients import gradient, rollout
from .params import Params
from .task import Split, Task
from .theory.closure import Closure
from .trajectory import load, save


def verify() -> Iterator[Result]:
    """Carry out all checks, one after the other."""
    runs = Runs()
    for each in CHECKS:
        yield each(runs)


# --- gradients -----------------------------------------------------------------------------------------------------------------

#: Sizes of which none is a multiple of a vector width, and those of the paper's main table with fewer sequences.
ODD = Config(N=13, L=7, d_g=5, d_h=10, n_train_seq=900, n_test_seq=16)
PAPER = Config(n_train_seq=2_048, n_test_seq=16)


@check("gradient against finite differences", at_most=1e-7)
def gradient_against_differences(_: Runs) -> float:
    """Slope of the loss, as the paper words it, along a random direction of each block, relative to the steepest."""
    cfg = ODD.replace(dtype="float64", n_train_seq=50)
    params, split = Params.initial(cfg, 1), Task(cfg, 1).train
    grad = gradient(cfg, params, split)[1]
    rng, h, worst = np.random.default_rng(0), 1e-5, 0.0
    for name, slope in grad.items():
        direction = rng.standard_normal(slope.shape)
        direction /= np.linalg.norm(direction)
        blocks = dict(params.items())
        ahead, behind = (
            written_out_loss(cfg, Params(**{**blocks, name: blocks[name] + sign * h * direction}), split) for sign in (1, -1)
        )
        difference = (ahead - behind) / (2 * h)
        worst = max(worst, abs(float(np.vdot(slope, direction)) - difference) / float(np.linalg.norm(slope)))
    return worst


def written_out_loss(cfg: Config, params: Params, split: Split) -> float:
    """The loss from rotated keys and queries and a matrix per sample; shares no code with the kernels."""
    law = cfg.rope_theta ** (-2 * np.arange(cfg.d_h // 2) / cfg.d_h) * (2 * np.pi if cfg.rope_law == "power-2pi" else 1)
    place = np.arange(1, 2 * cfg.L + 1)
    q, k = ((w[0::2] + 1j * w[1::2]) * np.exp(1j * place[:, None] * law) for w in (params.w_q, params.w_k))
    weights = np.exp((q[cfg.L :].conj() @ k[: cfg.L].T).real / np.sqrt(cfg.d_h))
    pi = weights / weights.sum(axis=1, keepdims=True)
    z = np.einsum("tj,njtr->ntr", pi, params.m[split.actions[:, :, None], :, split.inputs[:, None, :]])
    right = np.take_along_axis(z, split.targets[:, :, None], axis=2)[:, :, 0]
    return float(np.mean(np.log(np.exp(z).sum(axis=2)) - right))


@check("fused gradient against PyTorch, float32", at_most=1e-5)
def fused_against_torch_in_single(_: Runs) -> float:
    """Largest difference of loss and gradient, relative to the largest entry of each block."""
    return max(_between_backends(cfg) for cfg in (ODD, PAPER))


@check("fused gradient against PyTorch, float64", at_most=1e-12)
def fused_against_torch_in_double(_: Runs) -> float:
    """The same in double precision."""
    return max(_between_backends(cfg.replace(dtype="float64")) for cfg in (ODD, PAPER))


def _between_backends(cfg: Config) -> float:
    _require_torch()
    params, split = Params.initial(cfg, 2), Task(cfg, 2).train
    (loss, mine), (reference, theirs) = (gradient(cfg, params, split, backend=name) for name in ("fused", "torch"))
    blocks = zip(mine.items(), theirs.items(), strict=True)
    return max(abs(loss / reference - 1), *(np.abs(a - b).max() / np.abs(b).max() for (_, a), (_, b) in blocks))


def _require_torch() -> None:
    if find_spec("torch") is None:
        raise Skipped("PyTorch is not installed")


@check("three students and the kernel: their losses", at_most=1e-6)
def students_agree(_: Runs) -> float:
    """Closed form, bundled embeddings and GLU on real tokens, float32; the loss is about 3."""
    _require_torch()
    from .torch_model import Bundled, ClosedForm, token_tensor

    params, split = Params.initial(ODD, 4), Task(ODD, 4).train
    students = ClosedForm(ODD, params), Bundled(ODD, params), ClosedForm(ODD, params, glu=True)
    losses = [student.loss(token_tensor(split, ODD.d_g)).item() for student in students]
    return float(np.ptp([*losses, gradient(ODD, params, split)[0]]))


@check("entries that differ between 1 and 2 threads", at_most=0)
def threads_agree(_: Runs) -> float:
    """Every bit of loss and gradient is the same."""
    params, split = Params.initial(PAPER, 3), Task(PAPER, 3).train
    (loss, one), (same, two) = (gradient(PAPER, params, split, threads=count) for count in (1, 2))
    return (loss != same) + sum(int((a != b).sum()) for (_, a), (_, b) in zip(one.items(), two.items(), strict=True))


# --- what the mathematics demands ----------------------------------------------------------------------------------------------


@check("sequences that the teacher's weights get wrong", at_most=0)
def teacher_solves_the_task(runs: Runs) -> float:
    """Weights set to the solution generate every state of every chain."""
    task = Task(runs.cfg, 0)
    split = task.test
    generated = rollout(runs.cfg, Params.teacher(runs.cfg, task), split.actions, split.states[:, 0])
    return int((generated != split.states).any(axis=1).sum())


@check("rows of attention: their sums less 1", at_most=1e-12)
def rows_sum_to_one(runs: Runs) -> float:
    """Largest deviation over positions and epochs."""
    return float(abs(runs.steps.attention.sum("j") - 1).max())


@check("A stays inside (0, 1): how far outside", at_most=0)
def attention_is_a_probability(runs: Runs) -> float:
    """Simulated, and by the closure on the main table, where A comes within 1e-4 of 1 long before the end."""
    curves = np.concatenate([runs.steps.A, theory.closure(Config.preset("main")).A])
    return float(max(-curves.min(), curves.max() - 1, 0.0)) if (curves > 0).all() else np.inf


@check("SGD: drift of zeta and of any column sum of m", at_most=2e-5)
def column_sums_are_conserved(runs: Runs) -> float:
    """Largest drift of sum_r m[a, r, s] over a run in single precision; zeta is the mean of these sums."""
    sums = runs.steps.final_m.astype("float64").sum("next_state") - runs.steps.initial_m.astype("float64").sum("next_state")
    return float(max(abs(sums).max(), abs(runs.steps.zeta - runs.steps.zeta[0]).max()))


@check("gradient flow: drift of any |q_n|² - |k_n|²", at_most=1e-5)
def planes_are_balanced(runs: Runs) -> float:
    """Largest drift over a run, which attention weights of order 1 to 10 take part in."""

    def balance(stage: str) -> np.ndarray:
        q, k = (runs.flow[f"{stage}_{name}"].values.reshape(-1, 2) for name in ("w_q", "w_k"))
        return (q**2).sum(axis=1) - (k**2).sum(axis=1)

    return float(np.abs(balance("final") - balance("initial")).max())


# --- engines, files ------------------------------------------------------------------------------------------------------------


@check("leap against every SGD step: A", at_most=1e-4)
def leap_is_sgd_in_A(runs: Runs) -> float:
    """Over all evaluations of a whole run."""
    return float(abs(runs.leap.A - runs.steps.A).max())


@check("leap against every SGD step: R", at_most=1e-4)
def leap_is_sgd_in_R(runs: Runs) -> float:
    """Over all evaluations of a whole run, where R ends near 4."""
    return float(abs(runs.leap.R - runs.steps.R).max())


@check("test rollouts that end wrong after training", at_most=0)
def training_succeeds(runs: Runs) -> float:
    """The share of sequences whose last state is not the right one."""
    return float(1 - runs.steps.rollout_accuracy.sel(split="test")[-1])


@check("values changed by saving and loading a record", at_most=0)
def records_come_back(runs: Runs) -> float:
    """All variables of a record through a file in the temporary directory."""
    with tempfile.TemporaryDirectory() as directory:
        again = load(save(runs.steps, Path(directory) / "seed_0.npz"))
    return sum(int((again[name].values != value.values).sum()) for name, value in runs.steps.variables.items())


# --- theory --------------------------------------------------------------------------------------------------------------------

#: Solutions of the closure by a separate program: c_omega of both tables, then A and R of the main table at α = 1, 2, 3, 4.
C_OMEGA = {"main": 2.28348747, "robustness": 0.98982728}
CLOSURE = {"A": (0.12807, 0.28834, 0.86468, 0.99982), "R": (0.06617, 0.16917, 0.43993, 0.89716)}


@check("closure against check values: c_omega", at_most=1e-8)
def closure_constant(_: Runs) -> float:
    """Values are given to eight decimals."""
    return max(abs(Closure.of(Config.preset(name)).c_omega - value) for name, value in C_OMEGA.items())


@check("closure against check values: A and R", at_most=1e-5)
def closure_solution(_: Runs) -> float:
    """Values are given to five decimals."""
    curves = theory.closure(Config.preset("main", train_epochs=4_096, eval_every=1_024))
    return max(float(np.abs(curves[name].values[1:] - values).max()) for name, values in CLOSURE.items())


@check("theory tier 2 against a simulation: A", at_most=0.06)
def quenched_against_simulation(runs: Runs) -> float:
    """Largest difference over a run of one seed, of which the theory knows the initial weights."""
    return float(abs(theory.quenched(runs.cfg_large, seed=0).A - runs.large.A).max())


@check("theory tier 3 against a simulation: A", at_most=0.02)
def column_against_simulation(runs: Runs) -> float:
    """Largest difference over a run of one seed, of which the theory knows the initial weights."""
    return float(abs(theory.column(runs.cfg_large, seed=0, contexts=0).A - runs.large.A).max())


CHECKS = (
    gradient_against_differences,
    fused_against_torch_in_single,
    fused_against_torch_in_double,
    students_agree,
    threads_agree,
    teacher_solves_the_task,
    rows_sum_to_one,
    attention_is_a_probability,
    column_sums_are_conserved,
    planes_are_balanced,
    leap_is_sgd_in_A,
    leap_is_sgd_in_R,
    training_succeeds,
    records_come_back,
    closure_constant,
    closure_solution,
    quenched_against_simulation,
    column_against_simulation,
)
