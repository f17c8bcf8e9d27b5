"""The paper with one command: train what is missing, solve the theories, draw every figure, write the report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import contextmanager, nullcontext
from pathlib import Path

from .config import PRESETS, Config
from .engines import simulate
from .ensembles import ensemble
from .ensembles.processes import Processes
from .errors import Interrupted
from .estimate import estimate
from .experiments import FEW, Experiment, experiments, snapshot_epochs
from .figures.make import Drawn, available, draw_all, theories
from .figures.words import count
from .gradients.threads import cores
from .report import headlines, numbers, write
from .results import SNAPSHOTS, Results, TheoryJob
from .runs import CONFIG, train
from .seeds import write_seeds
from .trajectory import load, record_path

Say = Callable[[str], None]


def reproduce(
    seeds: Sequence[int],
    out: str | Path,
    everything: bool = False,
    main: Config | None = None,
    robustness: Config | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    say: Say = print,
) -> Path:
    """Train, solve, draw and report into `out`, and return the report's path; what is there already is not made again.

    `everything` adds the second table, variations of the main one, and one seed with every SGD step. Interrupted, the same call
    goes on; records of other runs in their places are refused. Work is done by `workers` processes of this machine, as many as
    cores by default, or by an `executor` that sees the same files.
    """
    out = Path(out)
    main = Config.preset("main") if main is None else main
    robustness = Config.preset("robustness") if robustness is None else robustness
    workers = cores() if workers is None else workers
    plan = experiments(main, seeds, everything, robustness)
    plan[0].found(out / SNAPSHOTS, main)
    if executor is None:
        compile_for(plan, out)
    say(estimate(plan, out, workers))
    if more := sorted(plan[0].found(out / plan[0].name, main) - set(seeds)):
        say(f"also there: {count(len(more), 'more seed')} of the main table ({write_seeds(more)}); figures and report show all")
    for name, reason in ((name, reason) for each in plan for name, reason in each.left_out.items()):
        say(f"  left out: {name} ({reason})")
    with _worth_repeating():
        for each in plan:
            run_experiment(each, out, workers, executor, say)
        with nullcontext(executor) if executor else _processes(workers) as pool:
            snapshots = pool.submit(take_snapshots, plan[0], out)
            solve_theories(Results(out), pool, say)
            snapshots.result()
            results = Results(out)
            drawn = draw_figures(results, out / "figures", pool, say)
        report = write(results, drawn, out, command_for(results, main, out))
    for name, value in headlines(numbers(results)):
        say(f"  {name:<34} {value}")
    say(f"{len(drawn)} figures in {out / 'figures'}, the report in {report}, its numbers in {report.with_suffix('.json')}")
    return report


def compile_for(plan: Sequence[Experiment], out: Path) -> None:
    """Compile what missing runs need, by two epochs of each kind: once and for all, and not in every process on a run's time."""
    kinds = {
        (each.points[point].N, each.points[point].dtype, each.engine, each.backend): each.points[point]
        for each in plan
        for point, seeds in each.missing(out).items()
        if seeds
    }
    for (*_, engine, backend), cfg in kinds.items():
        short = cfg.replace(train_epochs=min(2, cfg.train_epochs), eval_every=1)
        simulate(short, 0, engine=engine, backend=backend, threads=1 if backend == "fused" else None)


def run_experiment(each: Experiment, out: Path, workers: int, executor: Executor | None, say: Say) -> None:
    """Train the seeds of an experiment that have no record."""
    missing = sum(map(len, each.missing(out).values()))
    if not missing:
        return
    say(f"training {each.why}: {missing} of {count(len(each.points) * len(each.seeds), 'run')} to do")
    place = out / each.name
    if each.name == "exact":  # one long run: every core for it
        for seed in each.seeds:
            train(each.points[""], seed, place, engine=each.engine, backend=each.backend, threads=workers)
        return
    configs = each.points.get("", each.points)
    where = {"workers": min(workers, missing)} if executor is None else {"executor": executor}
    ensemble(configs, each.seeds, engine=each.engine, backend=each.backend, out=place, progress=True, **where)


def take_snapshots(main: Experiment, out: Path) -> None:
    """Train one seed once more, unless one is there, keeping its weights at the moments that its record tells are telling."""
    place, seed, cfg = out / SNAPSHOTS, main.seeds[0], main.points[""]
    if not main.found(place, cfg):
        epochs = snapshot_epochs(load(record_path(out / main.name, seed)))
        threads = 1 if main.backend == "fused" else None
        train(cfg, seed, place, engine=main.engine, backend=main.backend, save_params=epochs, threads=threads)


def command_for(results: Results, main: Config, out: Path) -> str:
    """The command that makes what is in `out`: its seeds, and the main configuration as a preset and what differs from it."""
    words = ["cotflow", "reproduce", "--seeds", write_seeds(results.seeds("main"))]
    words += ["--all"] * any(map(results.points, ("robustness", "sizes", "sweep", "exact")))
    own = not isinstance(main.vocabulary, str)  # permutations, which no flag can tell
    words += ["--config", str(out / "main" / CONFIG)] if own else flags_for(main)
    return shlex.join([*words, *(["--out", str(out)] if out != Path("results") else [])])


def flags_for(cfg: Config) -> list[str]:
    """The nearest preset and every field that differs from it, as on the command line.

    >>> flags_for(Config.preset("smoke", L=4))
    ['--preset', 'smoke', '--L', '4']
    """
    flags: dict[str, list[str]] = {}
    for name in PRESETS:
        base = Config.preset(name)
        different = {key: value for key, (value, _) in cfg.difference(base).items()}
        if cfg.full_batch:  # which a change of n_train_seq keeps
            different.pop("batch_size", None)
        flags[name] = [] if name == "main" else ["--preset", name]
        for key, value in different.items():
            flags[name] += [f"--{key}" if value else f"--no-{key}"] if isinstance(value, bool) else [f"--{key}", str(value)]
    return min(flags.values(), key=len)


def theory_jobs(results: Results, names: Sequence[str] | None = None, without: Sequence[str] = ()) -> list[TheoryJob]:
    """Theories that figures, by name or all that can be drawn, need and that are not there."""
    jobs = []
    for ensemble_name, tier in theories(available(results) if names is None else names, without):
        for point in results.points(ensemble_name):
            jobs += results.jobs(point, tier, results.seeds(point)[: FEW.get(tier)])
    return jobs


def solve_theories(
    results: Results, executor: Executor | None, say: Say, names: Sequence[str] | None = None, without: Sequence[str] = ()
) -> None:
    """Solve them, the longest first, in the executor's processes where one is given; a tier that refuses says why, once."""
    jobs = sorted(theory_jobs(results, names, without), key=lambda job: not job.tier.startswith("column"))
    if not jobs:
        return
    say(f"solving theories: {count(len(jobs), 'curve')}")
    for refusal in sorted({reason for reason in _each(executor, jobs) if reason}):
        say(f"  left out: {refusal}")


def _each(executor: Executor | None, jobs: Iterable[TheoryJob]) -> Iterator[str | None]:
    if executor is None:
        yield from (job.solve() for job in jobs)
    else:
        for future in as_completed([executor.submit(job.solve) for job in jobs]):
            yield future.result()


def draw_figures(results: Results, out: Path, executor: Executor | None, say: Say) -> list[Drawn]:
    """Draw every figure for which there are records, as PNG and PDF and for the report."""
    names = available(results)
    say(f"drawing {len(names)} figures")
    return draw_all(results, names, out, inline=True, executor=executor)


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
    except Interrupted:  # training has told
        raise
    except KeyboardInterrupt as interruption:
        raise Interrupted(f"{str(interruption) or 'interrupted'}; the same command goes on from what is there") from None
