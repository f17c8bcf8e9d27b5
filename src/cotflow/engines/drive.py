"""Drives any engine from start to end: records, checkpoints, resumes, and stops in good order."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import BudgetExceeded, Interrupted
from ..files import FileFault, read_archive, write_archive
from .engine import Engine
from .recorder import Recorder


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for whoever watches."""

    epoch: int
    epochs: int
    loss: float
    A: float
    rollout_accuracy: float
    gradients: int


@dataclass
class Checkpoint:
    """A run's file of rest: written atomically every `every` seconds, refused by any other run.

    `origin` is what makes the run: a checkpoint of another origin is not taken up.
    """

    path: Path | None
    origin: dict[str, Any]
    every: float = 30.0
    spent: float = 0.0
    started: float = field(default_factory=time.monotonic)
    written: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if not self.every >= 0:
            raise ValueError(f"checkpoint_every = {self.every!r} is not allowed; allowed: seconds, 0 or more")

    @property
    def seconds(self) -> float:
        """Wall time of the run, earlier sittings included."""
        return self.spent + time.monotonic() - self.started

    @property
    def how_to_go_on(self) -> str:
        """What to tell a user whose run stops here."""
        return f"; run the same command again to go on from {self.path}" if self.path else " (no checkpoint was asked for)"

    def resume(self, engine: Engine, recorder: Recorder) -> None:
        """Take up the file if it is there."""
        if self.path is None or not self.path.exists():
            return
        arrays, meta = read_archive(self.path, "checkpoint")
        if meta["origin"] != self.origin:
            keys = sorted(k for k in self.origin | meta["origin"] if self.origin.get(k) != meta["origin"].get(k))
            told = ", ".join(f"{key} = {meta['origin'].get(key)!r}, now {self.origin.get(key)!r}" for key in keys)
            raise FileFault(f"{self.path} belongs to another run ({told}); move it away or use another directory")
        own = {key.removeprefix("engine/"): value for key, value in arrays.items() if key.startswith("engine/")}
        engine.restore((own, meta["engine"]))
        recorder.restore({key: value for key, value in arrays.items() if not key.startswith("engine/")})
        self.spent = float(meta["seconds"])

    def write(self, engine: Engine, recorder: Recorder) -> None:
        """Write the file now."""
        if self.path is None:
            return
        arrays, meta = engine.state()
        arrays = {f"engine/{key}": value for key, value in arrays.items()} | recorder.state()
        write_archive(self.path, "checkpoint", arrays, {"origin": self.origin, "engine": meta, "seconds": self.seconds})
        self.written = time.monotonic()

    def write_if_due(self, engine: Engine, recorder: Recorder) -> None:
        """Write the file if the interval has passed."""
        if self.path is not None and time.monotonic() - self.written >= self.every:
            self.write(engine, recorder)


def drive(engine: Engine, recorder: Recorder, checkpoint: Checkpoint, progress: Callable[[Progress], None] | None = None) -> None:
    """Advance `engine` through all stops of `recorder`; on Ctrl-C or SIGTERM write a checkpoint and say how to go on."""
    done = {*recorder.epochs, *recorder.snapshots}
    with stop_requests() as stop_requested:

        def rest_if_asked() -> None:
            if stop_requested():
                checkpoint.write(engine, recorder)
                raise Interrupted(f"interrupted at epoch {engine.epoch}{checkpoint.how_to_go_on}")

        for stop in (s for s in recorder.stops if s not in done):
            rest_if_asked()
            while engine.epoch < stop:
                try:
                    engine.advance()
                except BudgetExceeded:  # with a larger budget the same run goes on
                    checkpoint.write(engine, recorder)
                    raise
                checkpoint.write_if_due(engine, recorder)
                rest_if_asked()
            params, loss = engine.at(stop)
            recorder.record(stop, params, loss)
            if progress and recorder.rows and recorder.epochs[-1] == stop:
                progress(_progress(engine, recorder))


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Turn SIGINT and SIGTERM into a flag that is read between steps, so that no step is torn; a second signal acts at once.

    In a thread, which no signal reaches, the flag is what whoever started it says: see `stoppable`.
    """
    asked = _asked.get()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    requested = False
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: Any) -> None:
        nonlocal requested
        requested = True
        for each, handler in before.items():  # SIGTERM's own way is to end a process without a word
            signal.signal(each, signal.default_int_handler if handler is signal.SIG_DFL else handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: requested or asked()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_asked: ContextVar[Callable[[], bool]] = ContextVar("asked", default=lambda: False)


@contextmanager
def stoppable(asked: Callable[[], bool]) -> Iterator[None]:
    """Let a run in this thread stop in good order once `asked()` is true."""
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)


def _progress(engine: Engine, recorder: Recorder) -> Progress:
    row = recorder.rows[-1]
    epoch, epochs = recorder.epochs[-1], recorder.cfg.train_epochs
    return Progress(epoch, epochs, float(row["loss"][0]), float(row["A"]), float(row["rollout_accuracy"][1]), engine.gradients)
