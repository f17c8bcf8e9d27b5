"""The paper with one command: train what is missing, solve the theories, draw every figure, write the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import contextmanager, nullcontext
from pathlib import Path

from .config import Config
from .ensembles import ensemble
from .ensembles.processes import Processes
from .ensembles.watch import duration
from .experiments import SIZE_SEEDS, Experiment, experiments, snapshot_epochs
from .figures.make import Drawn, available, draw_all
from .gradients import backend
from .gradients.threads import cores
from .observables import observe
from .params import Params
from .report import headlines, numbers, write
from .results import SEEDED, TIERS, Results, solve
from .runs import train
from .task import Task
from .trajectory import load, record_path

Say = Callable[[str], None]
#: Tier 3 is drawn for the first seeds only: what it says of one seed it says of all, at the price of a simulation each.
COLUMN_SEEDS = 8
#: What an estimate takes a run of engine leap to need; the record says what it did need.
GRADIENTS = 130
#: What it takes drawing to need, in seconds of one core.
FIGURES = 25.0


def reproduce(
    seeds: Sequence[int],
    out: str | Path,
    everything: bool = False,
    main: Config | None = None,
    robustness: Config | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    say: Say = print,
    command: str = "make reproduce",
) -> Path:
    """Train, solve, draw and report into `out`, and return the report's path; what is there already is not made again.

    `everything` adds the second table, variations of the main one, and one seed with every SGD step. Interrupted, the same call
    goes on. Work is done by `workers` processes of this machine, as many as cores by default, or by an `executor` that sees the
    same files. `command` is what the report says repeats it.
    """
    out = Path(out)
    main = Config.preset("main") if main is None else main
    robustness = Config.preset("robustness") if robustness is None else robustness
    workers = cores() if workers is None else workers
    plan = experiments(main, seeds, everything, robustness)
    say(estimate(plan, out, workers))
    with _worth_repeating():
        for each in plan:
            run_experiment(each, out, workers, executor, say)
        with nullcontext(executor) if executor else _processes(workers) as pool:
            snapshots = pool.submit(take_snapshots, main, plan[0].seeds[0], out)
            solve_theories(Results(out), pool, say)
            snapshots.result()
            results = Results(out)
            drawn = draw_figures(results, out / "figures", pool, say)
        report = write(results, drawn, out, command)
    for name, value in headlines(numbers(results)):
        say(f"  {name:<34} {value}")
    say(f"{len(drawn)} figures in {out / 'figures'}, the report in {report}, its numbers in {report.with_suffix('.json')}")
    return report


def run_experiment(each: Experiment, out: Path, workers: int, executor: Executor | None, say: Say) -> None:
    """Train the seeds of an experiment that have no record."""
    missing = sum(map(len, each.missing(out).values()))
    if not missing:
        return
    say(f"training {each.why}: {missing} of {len(each.points) * len(each.seeds)} runs")
    place = out / each.name
    if each.engine == "steps":  # one long run: every core for it
        for seed in each.seeds:
            train(each.points[""], seed, place, engine="steps", threads=workers)
        return
    configs = each.points.get("", each.points)
    where = {"workers": min(workers, missing)} if executor is None else {"executor": executor}
    ensemble(configs, each.seeds, engine=each.engine, out=place, progress=True, **where)


def take_snapshots(cfg: Config, seed: int, out: Path) -> None:
    """Train one seed once more, keeping its weights at the moments that its record tells are telling."""
    place = out / "snapshots"
    if not record_path(place, seed).exists():
        epochs = snapshot_epochs(load(record_path(out / "main", seed)))
        train(cfg, seed, place, save_params=epochs, threads=1)


def theory_jobs(results: Results, without: Sequence[str] = ()) -> list[tuple[str, str, int | None]]:
    """Theories that figures and report need and that are not there: (directory of records, tier, seed or None)."""
    tables = [point for name in ("main", "robustness") for point in results.points(name)]
    wanted = [(point, tier) for point in tables for tier in TIERS if not tier.endswith("-population")]
    wanted += [(point, "closure") for point in results.points("sweep")]
    if results.points("sizes"):  # what a training set does to a theory
        wanted += [(point, tier) for point in results.points("sizes") for tier in ("quenched", "column")]
        wanted += [("main", tier) for tier in ("quenched-population", "column-population")]
    jobs = []
    for point, tier in ((point, tier) for point, tier in wanted if tier not in without):
        seeds = results.seeds(point) if tier in SEEDED else []
        few = {"column": COLUMN_SEEDS, "quenched-population": SIZE_SEEDS, "column-population": SIZE_SEEDS}.get(tier)
        jobs += [(point, tier, seed) for seed in results.unsolved(point, tier, seeds[:few])]
    return jobs


def solve_theories(results: Results, executor: Executor | None, say: Say, without: Sequence[str] = ()) -> None:
    """Solve them, the longest first, in the executor's processes where one is given; a tier that refuses says why, once."""
    jobs = sorted(theory_jobs(results, without), key=lambda job: not job[1].startswith("column"))
    if not jobs:
        return
    say(f"solving theories: {len(jobs)} of three tiers and their limits")
    tasks = [(results.config(point), tier, seed, results.solution(point, tier, seed)) for point, tier, seed in jobs]
    for refusal in sorted({reason for reason in _each(executor, tasks) if reason}):
        say(f"  left out: {refusal}")


def _each(executor: Executor | None, tasks: Iterable[tuple[Config, str, int | None, Path]]) -> Iterator[str | None]:
    if executor is None:
        yield from (solve(*task) for task in tasks)
    else:
        for future in as_completed([executor.submit(solve, *task) for task in tasks]):
            yield future.result()


def draw_figures(results: Results, out: Path, executor: Executor | None, say: Say) -> list[Drawn]:
    """Draw every figure for which there are records, as PNG and PDF and for the report."""
    names = available(results)
    say(f"drawing {len(names)} figures")
    return draw_all(results, names, out, inline=True, executor=executor)


def estimate(plan: Sequence[Experiment], out: Path, workers: int) -> str:
    """How long it will take, from one gradient and one evaluation timed here and now."""
    missing = [(each, each.points[point], len(seeds)) for each in plan for point, seeds in each.missing(out).items()]
    runs = sum(count for *_, count in missing)
    if runs == 0:
        return f"all records are in {out}; theories, figures and report follow"
    first = plan[0].points[""]
    gradient, evaluation = timed(first)

    def one(cfg: Config, engine: str = "leap") -> float:
        count = cfg.train_epochs if engine == "steps" else GRADIENTS
        return count * gradient * _size(cfg) / _size(first) + len(cfg.eval_epochs) * evaluation

    seconds = sum(one(cfg, each.engine) * count for each, cfg, count in missing) / workers
    rest = one(first) * (1 + min(COLUMN_SEEDS, len(plan[0].seeds))) / workers + FIGURES / workers
    return (
        f"{runs} runs to train: one gradient takes {1e3 * gradient:.1f} ms here, one evaluation "
        f"{1e3 * evaluation:.1f} ms, so about {duration(seconds)} on {workers} cores; theories, figures and report about "
        f"{duration(rest)} more"
    )


def timed(cfg: Config) -> tuple[float, float]:
    """Seconds of one gradient and of one evaluation on one thread, compiling left out."""
    task, params, fused = Task(cfg, 0), Params.initial(cfg, 0), backend("fused", 1)

    def least(call: Callable[[], object]) -> float:
        call()
        times = []
        for _ in range(3):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return min(times)

    return (
        least(lambda: fused.loss_and_gradient(cfg, params, task.train)),
        least(lambda: observe(cfg, task, params, fused, 0.0)),
    )


def _size(cfg: Config) -> int:
    return cfg.n_train_seq * cfg.L * cfg.N


@contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    """Worker processes for theories and figures."""
    executor = Processes(workers)
    try:
        yield executor
    finally:
        executor.stop()
        executor.shutdown(cancel_futures=True)


@contextmanager
def _worth_repeating() -> Iterator[None]:
    """Tell who interrupts that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        raise KeyboardInterrupt(f"{interruption or 'interrupted'}; the same command goes on from what is there") from None
