"""Gradients against error: leap, flow and SciPy's solvers beside every step of SGD.

`python benchmarks/engines.py --preset main --seeds 0 1 2 --references DIR` trains the references (engine `steps`) into DIR unless
they are there, then prints one table: for each method and tolerance the gradients, the largest error of A, R, S and the train
loss against SGD, over all evaluation epochs and seeds, that of A against gradient flow (engine `flow`, 1e-8), and the seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr
from scipy.integrate import DOP853, LSODA, RK45

import cotflow as cf
from cotflow.attention import attention
from cotflow.engines import make_engine
from cotflow.engines.adams import Adams, Trial
from cotflow.engines.descent import Descent
from cotflow.engines.laws import Plain
from cotflow.engines.leap import Leap
from cotflow.engines.quadrature import SUM
from cotflow.gradients.backends import Backend, backend
from cotflow.observables import order_parameters
from cotflow.runs import train

NAMES = ("A", "R", "S", "loss")
SOLVERS = {"RK45": RK45, "DOP853": DOP853, "LSODA": LSODA}
PLAIN, TWICE = "leap, plain force", "leap, PECE"
Curves = dict[str, np.ndarray]
Runner = Callable[[cf.Config, cf.Task, Backend, float], tuple[Curves, int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="main")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--references", default="results/references")
    parser.add_argument("--methods", nargs="+", default=["leap", PLAIN, TWICE, "flow", *SOLVERS])
    parser.add_argument("--tolerances", type=float, nargs="+", default=[3e-4, 1e-4, 3e-5, 2e-5, 1e-5, 1e-6, 1e-7])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    cfg, made = cf.Config.preset(arguments.preset), backend("fused", arguments.threads)
    references = {
        seed: train(cfg, seed, f"{arguments.references}/{arguments.preset}", engine="steps", threads=arguments.threads)[0]
        for seed in arguments.seeds
    }
    flows = {seed: _engine("flow")(cfg, cf.Task(cfg, seed), made, 1e-8)[0]["A"] for seed in arguments.seeds}
    print(f"{arguments.preset}, seeds {arguments.seeds}: the worst seed in every column")
    print("| method | tolerance | gradients | max ΔA | max ΔR | max ΔS | max Δloss | max ΔA from flow | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for method in arguments.methods:
        for tolerance in arguments.tolerances:
            rows = list(_measure(cfg, references, flows, made, method, tolerance))
            worst = np.max(rows, axis=0)
            errors = " | ".join("-" if np.isnan(error) else f"{error:.1e}" for error in worst[2:])
            print(f"| {method} | {tolerance:.0e} | {worst[0]:.0f} | {errors} | {worst[1]:.1f} |", flush=True)


def _measure(
    cfg: cf.Config,
    references: dict[int, xr.Dataset],
    flows: dict[int, np.ndarray],
    made: Backend,
    method: str,
    tolerance: float,
) -> Iterator[list[float]]:
    for seed, reference in references.items():
        task = cf.Task(cfg, seed)
        runner = _scipy(method) if method in SOLVERS else _engine(method)
        start = time.perf_counter()
        curves, gradients = runner(cfg, task, made, tolerance)
        seconds = time.perf_counter() - start
        exact = {name: reference[name].values for name in NAMES[:3]} | {"loss": reference.loss.sel(split="train").values}
        yield [
            gradients,
            seconds,
            *(np.abs(curves[name] - exact[name]).max() for name in NAMES),
            np.abs(curves["A"] - flows[seed]).max(),
        ]


class PlainLeap(Leap):
    """Leap without the closed form of attention: the force on every weight is interpolated."""

    def _law(self, cfg: cf.Config, rtol: float, atol: float) -> Plain:
        return Plain(self._force, cfg.lr, SUM)


class Pece(Adams):
    """Adams with a second evaluation a step, at the corrected point, which takes the predicted one's place in the history."""

    def _accept(self, h: float, trial: Trial) -> None:
        loss, g = self._evaluate(trial.x, self.epoch + h)
        super()._accept(h, trial._replace(table=self._differences(g, self.epoch + h), loss=loss))


class TwiceLeap(Leap):
    """Leap with two evaluations a step."""

    method = Pece


VARIANTS = {PLAIN: PlainLeap, TWICE: TwiceLeap}


def _engine(name: str) -> Runner:
    def run(cfg: cf.Config, task: cf.Task, made: Backend, tolerance: float) -> tuple[Curves, int]:
        start = cf.Params.initial(cfg, task.seed)
        options = {"rtol": tolerance, "atol": tolerance, "max_gradients": 100_000}
        engine = make_engine(VARIANTS.get(name, name), cfg, task, start, made, **options)
        rows = []
        for epoch in cfg.eval_epochs:
            while engine.epoch < epoch:
                engine.advance()
            params, loss = engine.at(epoch)
            rows.append([*_order_parameters(cfg, task, params), loss])
        return dict(zip(NAMES, np.array(rows).T, strict=True)), engine.gradients

    return run


def _scipy(name: str) -> Runner:
    """Gradient flow by a SciPy solver, dx/dtau = f(x) over tau = lr * epoch, at the solver's own dense output."""

    def run(cfg: cf.Config, task: cf.Task, made: Backend, tolerance: float) -> tuple[Curves, int]:
        start, descent = cf.Params.initial(cfg, task.seed), Descent(cfg, made)

        def f(tau: float, x: np.ndarray) -> np.ndarray:
            return descent(start.unflatten(x), task.train, tau / cfg.lr)[1].flatten()

        solver = SOLVERS[name](f, 0.0, start.flatten(), cfg.lr * cfg.train_epochs, rtol=tolerance, atol=tolerance)
        rows, waiting = [[*_order_parameters(cfg, task, start), np.nan]], list(cfg.eval_epochs[1:])
        while solver.status == "running":
            solver.step()
            dense = solver.dense_output() if waiting and cfg.lr * waiting[0] <= solver.t else None
            while dense and waiting and cfg.lr * waiting[0] <= solver.t:
                params = start.unflatten(dense(cfg.lr * waiting.pop(0)))
                rows.append([*_order_parameters(cfg, task, params), np.nan])
        return dict(zip(NAMES, np.array(rows).T, strict=True)), descent.evaluations

    return run


def _order_parameters(cfg: cf.Config, task: cf.Task, params: cf.Params) -> tuple[float, float, float]:
    A = np.trace(attention(cfg, params.w_q, params.w_k)) / cfg.L
    return float(A), *order_parameters(task.permutations, params.m)


if __name__ == "__main__":
    main()
