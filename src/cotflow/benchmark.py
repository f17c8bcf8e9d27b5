"""How long one full-batch gradient takes: the fused kernel beside PyTorch formulations, and as N, L and n grow.

Everything is timed in one run, formulations taking turns, so that what else the machine does falls on all of them. What is timed
is one gradient among many, as in training: on its turn each runs untimed for a while first. Every time includes attention and its
pull-back. A formulation whose memory grows too fast is timed on fewer sequences, and its time scaled up; the fused kernel leaves
few items to one thread, whatever number it may use.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from math import factorial

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from .config import Config
from .gradients import gradient
from .gradients.threads import cores
from .params import Params
from .task import Split, Task

#: Formulations by the name of the backend or method, with what the table says of them.
FORMULATIONS = {
    "fused": "fused kernel",
    "bag": "PyTorch, embedding_bag both ways",
    "gather": "PyTorch, gather and autograd",
    "literal": "PyTorch, a matrix per sample",
}
#: Sequences on which a formulation whose memory grows as n L^2 N or n L N^2 is timed, for times of all n.
FEWER = {"gather": 4096, "literal": 1024}
#: Seconds after which a formulation leaves the rounds, once it has taken part in three.
BUDGET = 20.0
#: Seconds for which each runs untimed on its turn. The threads of the one before keep a core busy while they wait for work, and a
#: core that was idle may take milliseconds to wake.
WARM_UP = 0.1


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one gradient of all n sequences: median and quartiles over the rounds."""

    name: str
    N: int
    L: int
    d_g: int
    n: int
    threads: int
    sequences: int
    """Sequences that were timed; times are scaled to n, linear in them."""
    rounds: int
    milliseconds: float
    low: float
    high: float
    ratio: float
    """Median over rounds of the time relative to the fused kernel's in the same round, with as many threads."""

    @property
    def picoseconds(self) -> float:
        """Time for one of the n L^2 N numbers that are combined."""
        return 1e9 * self.milliseconds / (self.n * self.L**2 * self.N)


def compare(cfg: Config, threads: Iterable[int] = (1, 2), rounds: int = 25, names: Iterable[str] | None = None) -> list[Timing]:
    """The formulations side by side; PyTorch's are left out where it is not installed."""
    if names is None:
        names = FORMULATIONS if importlib.util.find_spec("torch") else ["fused"]
    names = ["fused", *(name for name in names if name != "fused")]
    wrong = [name for name in names if name not in FORMULATIONS]
    if wrong:
        raise ValueError(f"formulations = {', '.join(wrong)} does not exist; allowed: {', '.join(FORMULATIONS)}")
    if rounds < 1:
        raise ValueError(f"rounds = {rounds} is not allowed; allowed: whole numbers from 1")
    threads = list(threads)
    if not threads:
        raise ValueError("threads is empty; allowed: one number or more")
    return [timing for k in threads for timing in _race(cfg, names, k, rounds)]


def scaling(cfg: Config, threads: int = 1, rounds: int = 9) -> dict[str, list[Timing]]:
    """The fused kernel as each of N, L and n grows, the others as in `cfg`."""
    return {name: [_race(c, ["fused"], threads, rounds)[0] for c in configs] for name, configs in grown(cfg).items()}


def grown(cfg: Config) -> dict[str, list[Config]]:
    """The configurations of `scaling`; N only where the vocabulary leaves it free."""
    n = cfg.n_train_seq
    found = {
        "L": [cfg.replace(L=L) for L in (5, 10, 20, 40)],
        "n": [
            cfg.replace(n_train_seq=each, batch_size=each) for f in (1 / 8, 1 / 4, 1 / 2, 1, 2) if (each := max(1, int(n * f)))
        ],
    }
    if cfg.vocabulary != "random" or cfg.d_g > factorial(8):
        return found
    return {"N": [cfg.replace(N=N) for N in (8, 16, 32, 64, 128)], **found}


def exponent(timings: list[Timing], name: str) -> float:
    """The power of N, L or n by which time grows, by least squares on logarithms."""
    x = [getattr(t, name) for t in timings]
    return float(np.polyfit(np.log(x), np.log([t.milliseconds for t in timings]), 1)[0])


def _race(cfg: Config, names: list[str], threads: int, rounds: int) -> list[Timing]:
    task, params = Task(cfg, 0), Params.initial(cfg, 0)
    n = len(task.train)
    splits = {name: task.train.take(slice(min(n, FEWER.get(name, n)))) for name in names}
    runs = {name: _runner(name, cfg, params, splits[name], threads) for name in names}
    for run in runs.values():
        run()  # compiles, sorts, warms up
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, run in runs.items():
            if len(times[name]) < 3 or sum(times[name]) < BUDGET:
                _warm_up(run)
                start = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - start)
    return list(_timings(cfg, times, {name: len(split) for name, split in splits.items()}, threads))


def _warm_up(run: Callable[[], object]) -> None:
    begun = time.perf_counter()
    while time.perf_counter() < begun + WARM_UP:
        run()


def _timings(cfg: Config, times: dict[str, list[float]], sequences: dict[str, int], threads: int) -> Iterator[Timing]:
    n = cfg.n_train_seq
    for name, seconds in times.items():
        ms = 1e3 * np.array(seconds) * n / sequences[name]
        ratio = np.median(ms / (1e3 * np.array(times["fused"][: len(ms)])))
        low, median, high = np.quantile(ms, [0.25, 0.5, 0.75])
        sizes = (cfg.N, cfg.L, cfg.d_g, n)
        yield Timing(name, *sizes, threads, sequences[name], len(ms), float(median), float(low), float(high), float(ratio))


def _runner(name: str, cfg: Config, params: Params, split: Split, threads: int) -> Callable[[], object]:
    if name == "fused":
        return lambda: gradient(cfg, params, split, backend="fused", threads=threads)
    try:
        import torch

        from .gradients import autograd
    except ImportError as error:
        raise ValueError(f"formulation '{name}' needs PyTorch: pip install 'cotflow[torch]' ({error})") from None

    def run() -> object:
        torch.set_num_threads(threads)
        return autograd.loss_and_gradient(cfg, params, split, method=name)

    return run


def report(cfg: Config, timings: list[Timing], grown: dict[str, list[Timing]] | None = None, as_json: bool = False) -> str:
    """The results as a table to read, or as JSON."""
    if as_json:
        records = {"config": cfg.model_dump(mode="json"), "cores": cores(), "gradients": [asdict(t) for t in timings]}
        if grown:
            records["scaling"] = {name: [asdict(t) for t in series] for name, series in grown.items()}
            records["exponents"] = {name: exponent(series, name) for name, series in grown.items()}
        return json.dumps(records, indent=1)
    console = Console(width=80, highlight=False)
    with console.capture() as capture:
        console.print(f"one gradient: N = {cfg.N}, L = {cfg.L}, d_g = {cfg.d_g}, n = {cfg.n_train_seq}, {cfg.dtype}")
        console.print(_comparison(timings), end="")
        console.print("ratio: median over rounds of the time relative to the fused kernel's")
        for name, series in (grown or {}).items():
            power = f"time grows as {name}^{exponent(series, name):.2f}"
            console.print(f"\nfused kernel as {name} grows, {series[0].threads} thread(s): {power}")
            console.print(_series(name, series), end="")
    return capture.get()


def _comparison(timings: list[Timing]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for column in ("formulation", "threads", "ms", "quartiles", "ratio"):
        table.add_column(column, justify="left" if column == "formulation" else "right", no_wrap=True)
    for t in timings:
        table.add_row(FORMULATIONS[t.name], str(t.threads), *_spread(t), f"{t.ratio:.2f}")
    return table


def _spread(t: Timing) -> tuple[str, str]:
    """Median and quartiles, three digits each."""
    low, median, high = (f"{x:.3g}" if x < 100 else f"{x:.0f}" for x in (t.low, t.milliseconds, t.high))
    return median, f"{low} to {high}"


def _series(name: str, series: list[Timing]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for column in (name, "ms", "quartiles", "gradients a second", "ps per n L² N"):
        table.add_column(column, justify="right")
    for t in series:
        table.add_row(str(getattr(t, name)), *_spread(t), f"{1e3 / t.milliseconds:.1f}", f"{t.picoseconds:.1f}")
    return table
