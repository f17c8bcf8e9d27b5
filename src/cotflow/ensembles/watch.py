"""How far an ensemble is: a live bar on a terminal, lines in a log, and a file that `cotflow status` reads."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..files import write_text
from ..status import duration
from .jobs import Job, Outcome


class Watch:
    """Counts runs by their state and estimates the time left, from the relative costs of what is done and what is not.

    `show`: True for a bar on a terminal and lines elsewhere, None for a bar on a terminal and nothing elsewhere, False for
    nothing.
    """

    def __init__(self, show: bool | None = None, state: Path | None = None, every: float = 10.0) -> None:
        terminal = sys.stderr.isatty()
        self.show = terminal if show is None else show
        self.state, self.every = state, every
        self.total = self.done = self.there = self.failed = self.held = self.running = 0
        self.remark = ""
        self.plan: dict[str, Any] = {}
        self._waiting: dict[tuple[str, int], float] = {}
        self._begun: dict[tuple[str, int], tuple[float, float]] = {}
        self._cost_done = self._seconds_done = 0.0
        self._last = self._told = self._written = time.monotonic()
        self._bar = _Bar() if self.show and terminal else None

    def begin(self, jobs: Sequence[Job], there: int, plan: dict[str, Any]) -> None:
        """Start the clock; `there` runs were finished before, `plan` is for the state file."""
        self.total, self.there, self.plan = len(jobs) + there, there, plan
        self._waiting = {(job.point, job.seed): job.cost for job in jobs}
        self._last = time.monotonic()
        self.tick(0, now=True)

    def over(self, job: Job, outcome: Outcome) -> None:
        """Count an outcome; failures are told at once."""
        key = (job.point, job.seed)
        begun, _ = self._begun.pop(key, (self._last, 0.0))
        self._waiting.pop(key, None)
        self._last = time.monotonic()
        self._seconds_done += self._last - begun
        self._cost_done += job.cost
        if outcome.status == "done":
            self.done += 1
        elif outcome.status == "busy":
            self.held += 1
            self.note(f"{job} is left out: {outcome.cause}")
        else:
            self.failed += 1
            self.note(f"{job} failed: {outcome.cause}")

    def note(self, text: str, always: bool = False) -> None:
        """Tell something that does not wait; what is to be told always becomes a warning where nothing is shown."""
        if self._bar:
            self._bar.print(text)
        elif self.show:
            _line(text)
        elif always:
            warnings.warn(text, stacklevel=2)

    def tick(self, running: int, remark: str = "", now: bool = False) -> None:
        """Show where things stand, if it is time. Runs are taken to begin in their order."""
        self.running, self.remark = running, remark
        moment = time.monotonic()
        while self._waiting and len(self._begun) < running:
            key = next(iter(self._waiting))
            self._begun[key] = (moment, self._waiting.pop(key))
        if self._bar:
            self._bar.show(self.done + self.there + self.failed + self.held, self.total, self.text)
        elif self.show and (now or moment - self._told >= self.every):
            _line(self.text)
            self._told = moment
        if self.state and (now or moment - self._written >= 1.0):
            self._write()
            self._written = moment

    def end(self) -> None:
        """Last words."""
        if self.done or self.failed or self.held:
            self.tick(0, now=True)
        if self._bar:
            self._bar.close()

    @property
    def seconds_left(self) -> float | None:
        """Estimate, from what finished runs took and what running ones have had; None before anything is done."""
        if not self._cost_done:
            return None
        pace, now = self._seconds_done / self._cost_done, time.monotonic()
        rest = [max(pace * cost - (now - begun), 0.0) for begun, cost in self._begun.values()]
        together = sum(rest) + pace * sum(self._waiting.values())
        return max(together / max(len(self._begun), 1), *rest, 0.0)

    @property
    def text(self) -> str:
        """One line: done, running, failed, waiting, time left."""
        waiting = self.total - self.done - self.there - self.failed - self.held - self.running
        parts = [f"{self.done + self.there} of {self.total} done", f"{self.running} running", f"{self.failed} failed"]
        if waiting > 0:
            parts.append(f"{waiting} waiting")
        if self.held:
            parts.append(f"{self.held} held by another process")
        if (self._waiting or self._begun) and self.seconds_left is not None:
            parts.append(f"about {duration(self.seconds_left)} left")
        return ", ".join([*parts, *([self.remark] if self.remark else [])])

    def _write(self) -> None:
        if self.state is None:
            return
        counts = {"done": self.done + self.there, "failed": self.failed, "running": self.running, "total": self.total}
        left = None if self.seconds_left is None else round(self.seconds_left, 1)
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with suppress(OSError):  # a full disk is told by the records, which matter
            write_text(self.state, json.dumps({**self.plan, **counts, "seconds_left": left, "written": moment}, indent=1) + "\n")


def _line(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


class _Bar:
    """A live bar on the terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (BarColumn(bar_width=30), TextColumn("{task.percentage:3.0f}%"), TextColumn("{task.fields[text]}"))
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.start()
        self._task = self._progress.add_task("ensemble", total=None, text="")

    def show(self, completed: int, total: int, text: str) -> None:
        self._progress.update(self._task, completed=completed, total=total, text=text)

    def print(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self._progress.stop()
