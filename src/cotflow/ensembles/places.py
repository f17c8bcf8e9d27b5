"""The directory of an ensemble: one place a point, claimed by one process at a time, with what is finished in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..config import Config
from ..files import Damaged, FileFault, read_archive, write_text
from ..params import Params
from ..runs import cause_path, failed_path, same_run
from ..status import LOCK
from ..trajectory import load, record_files, unfinished

CONFIG = "config.toml"


@contextmanager
def claim(out: Path) -> Iterator[None]:
    """Hold a directory for one ensemble; refuse where another has it (`status` looks at the lock for an instant)."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with FileLock(out / LOCK, timeout=1.0):
            yield
    except Timeout:
        raise FileFault(
            f"{out} is being worked on by another ensemble; `cotflow status {out}` shows how far it is, and once it has ended "
            "the same command completes what is missing"
        ) from None


def settle(places: Mapping[Path, Config]) -> None:
    """Write each place's configuration, and refuse a place that has another one, with the difference."""
    for place, cfg in places.items():
        file = place / CONFIG
        if file.exists():
            differences = Config.from_toml(file).difference(cfg)
            if differences:
                told = ", ".join(f"{key} = {old!r}, now {new!r}" for key, (old, new) in differences.items())
                raise FileFault(f"{place} belongs to another configuration ({told}); use another directory or move it away")
    for place, cfg in places.items():
        if not (place / CONFIG).exists():
            write_text(place / CONFIG, cfg.to_toml())


def finished(
    place: Path, cfg: Config, seeds: Iterable[int], options: Mapping[str, Any], starts: Mapping[int, Params]
) -> tuple[set[int], list[str]]:
    """Seeds of a place whose records are there, whole and of this very run; and a sentence on every file set aside as damaged."""
    wanted, done, notes = set(seeds), set(), []
    for seed, file in record_files(place).items():
        if seed in wanted:
            try:
                same_run(load(file), file, cfg, seed, {**options, "params": starts.get(seed)})
                done.add(seed)
            except Damaged as fault:
                notes.append(f"{fault}; it is now {_set_aside(file).name}, and seed {seed} runs again")
    for seed, file in unfinished(place).items():
        if seed in wanted - done:
            try:
                read_archive(file, "checkpoint")
            except Damaged as fault:
                notes.append(f"{fault}; it is now {_set_aside(file).name}, and seed {seed} begins anew")
    return done, notes


def failed(place: Path, seeds: Iterable[int]) -> set[int]:
    """Seeds of a place that failed when they last ran."""
    return {seed for seed in seeds if cause_path(place, seed).exists() or failed_path(place, seed).exists()}


def _set_aside(file: Path) -> Path:
    number = 1
    while (aside := file.with_name(f"{file.name}.damaged-{number}")).exists():
        number += 1
    return file.rename(aside)
