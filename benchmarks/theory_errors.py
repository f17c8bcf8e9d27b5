"""How far is each tier of theory from simulation? Worst errors over whole runs, seed by seed.

    python benchmarks/theory_errors.py seeds --preset main --seeds 8
    python benchmarks/theory_errors.py ensemble --preset main --seeds 20
    python benchmarks/theory_errors.py data --preset main --seeds 4
    python benchmarks/theory_errors.py size --seeds 4
    python benchmarks/theory_errors.py cost

Simulations (engine leap, 4,096 test sequences so that sampling noise stays out of the comparison) are kept in --runs and
taken up again; --json writes the table. A theory describes an infinite test set, so it is compared with the test split.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import cotflow as cf
from cotflow.theory.rollout import crossing

VARIABLES = ("A", "R", "S", "loss", "mu_k", "var_k", "mu_o", "var_o", "next_token_accuracy")
THEORIES: dict[str, dict[str, Any]] = {
    "closure": {},
    "quenched, mean noise": {"tier": "quenched", "data": "population", "noise": "mean"},
    "quenched, population": {"tier": "quenched", "data": "population"},
    "quenched": {},
    "column, population": {"tier": "column", "data": "population"},
    "column": {},
}
TRAINING_SETS = (2_048, 8_192, 32_768, 131_072)
SIZES = ((8, 4, 16), (16, 8, 32), (24, 12, 48), (32, 16, 64), (48, 24, 96))
"""N = d_g, L, d_h at fixed ratios d_g/N = 1, N/L = 2, L/d_h = 1/4."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("seeds", "ensemble", "data", "size", "cost"))
    parser.add_argument("--preset", default="main")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--runs", type=Path, default=Path("results/theory_errors"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    cfg = cf.Config.preset(arguments.preset).replace(n_test_seq=4_096)
    seeds = range(arguments.seeds)
    rows: list[dict[str, Any]]
    if arguments.what == "cost":
        rows = costs(cfg)
    elif arguments.what == "ensemble":
        rows = ensemble(cfg, seeds, arguments.runs)
    else:
        rows = []
        for point in points(cfg, arguments.what):
            rows += errors(point, seeds, arguments.runs)
            show([row for row in rows if row["config_hash"] == point.hash])
    if arguments.what in ("data", "size"):
        rows = means(rows)
    show(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


def points(cfg: cf.Config, what: str) -> list[cf.Config]:
    """The configurations of a question; sizes share alpha = 0..16 and items per (state, action)."""
    if what == "data":
        return [cfg.replace(n_train_seq=n) for n in TRAINING_SETS]
    if what == "size":
        return [
            cf.Config(
                N=N,
                d_g=N,
                L=L,
                d_h=d_h,
                n_train_seq=320 * N * N // L,
                n_test_seq=4_096,
                train_epochs=16 * N * N,
                eval_every=N * N // 16,
            )
            for N, L, d_h in SIZES
        ]
    return [cfg]


def simulated(cfg: cf.Config, seed: int, runs: Path) -> xr.Dataset:
    """A seed's simulation, from its file where it is there."""
    path = runs / f"{cfg.hash}_{seed}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        cf.save(cf.simulate(cfg, seed), path)
    return cf.load(path)


def solved(cfg: cf.Config, name: str, seed: int, accuracies: bool = True) -> xr.Dataset:
    options = dict(THEORIES[name])
    tier = options.pop("tier", name)
    options |= {} if accuracies or tier != "column" else {"contexts": 0}
    return cf.theory.solve(tier, cfg, **(options if tier == "closure" else {"seed": seed, **options}))


def errors(cfg: cf.Config, seeds: Iterable[int], runs: Path) -> list[dict[str, Any]]:
    """One row a seed and a theory: worst absolute errors, and the time of the rollout transition."""
    rows = []
    for seed in seeds:
        run = simulated(cfg, seed, runs).sel(split="test")
        transition = crossing(run.alpha.values, run.rollout_accuracy.values)
        for name in THEORIES:
            theory = solved(cfg, name, seed)
            row = {"theory": name, "N": cfg.N, "n_train_seq": cfg.n_train_seq, "seed": seed, "config_hash": cfg.hash}
            row |= {variable: worst(theory, run, variable) for variable in VARIABLES if variable in theory}
            if "rollout_accuracy" in theory:
                row["transition"] = transition
                row["predicted"] = crossing(theory.alpha.values, theory.rollout_accuracy.values)
            rows.append(row)
    return rows


def worst(theory: xr.Dataset, run: xr.Dataset, variable: str) -> float:
    return float(abs(theory[variable] - run[variable]).max())


def means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Seeds averaged: the mean over seeds of the worst error."""
    keys = list(dict.fromkeys((row["theory"], row["N"], row["n_train_seq"]) for row in rows))
    out = []
    for theory, N, n in keys:
        group = [row for row in rows if (row["theory"], row["N"], row["n_train_seq"]) == (theory, N, n)]
        averaged = {v: float(np.mean([row[v] for row in group])) for v in VARIABLES if v in group[0]}
        out.append({"theory": theory, "N": N, "n_train_seq": n, "seeds": len(group), **averaged})
    return out


def ensemble(cfg: cf.Config, seeds: Iterable[int], runs: Path) -> list[dict[str, Any]]:
    """Worst errors of the ensemble's mean and spread of A, over alpha, from the same seeds' initial weights."""
    simulations = np.array([simulated(cfg, seed, runs).A.values for seed in seeds])
    at = int(np.argmin(abs(np.asarray(cfg.eval_epochs) * cfg.alpha_per_epoch - 1.95)))
    rows = [row_of("simulation", simulations, simulations, at)]
    for name in THEORIES:
        curves = np.array([solved(cfg, name, seed, accuracies=False).A.values for seed in (seeds if name != "closure" else [0])])
        rows.append(row_of(name, curves, simulations, at))
    fresh = cf.theory.quenched(cfg, draws=60, data="population").A.values
    return [*rows, row_of("quenched, 60 fresh draws", fresh, simulations, at)]


def row_of(name: str, curves: np.ndarray, simulations: np.ndarray, at: int) -> dict[str, Any]:
    mean, spread = curves.mean(axis=0), curves.std(axis=0)
    return {
        "theory": name,
        "mean error": float(abs(mean - simulations.mean(axis=0)).max()),
        "spread error": float(abs(spread - simulations.std(axis=0)).max()),
        "A(1.95)": float(mean[at]),
        "spread(1.95)": float(spread[at]),
    }


def costs(cfg: cf.Config, repeats: int = 5) -> list[dict[str, Any]]:
    """Seconds of one solution, all evaluations included; compiled beforehand."""
    rows = []
    for name, options in {**THEORIES, "column, no contexts": {"tier": "column", "contexts": 0}}.items():
        options = dict(options)
        tier = options.pop("tier", name)
        options |= {} if tier == "closure" else {"seed": 0}
        times = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            cf.theory.solve(tier, cfg, **options)
            times.append(time.perf_counter() - start)
        rows.append(
            {"theory": name, "median s": float(np.median(times[1:])), "least s": min(times[1:]), "most s": max(times[1:])}
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print rows as a table."""
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if key != "config_hash"]
    table = [columns, *([_cell(row.get(key)) for key in columns] for row in rows)]
    widths = [max(len(line[k]) for line in table) for k in range(len(columns))]
    for line in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    print(flush=True)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
