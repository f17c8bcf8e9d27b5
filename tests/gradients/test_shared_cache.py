"""Processes that compile at the same time leave a cache in which every specialisation has its own code."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path

from numba.core.caching import IndexDataCacheFile

import cotflow.gradients.shared_cache  # noqa: F401

ENTRIES = 60


def fill(directory: Path, start: Barrier, who: int) -> None:
    cache = IndexDataCacheFile(str(directory), "kernel", "stamp")
    start.wait(30)
    for i in range(ENTRIES):
        cache.save((who, i), f"code of {who}, {i}")


def test_no_specialisation_is_served_the_code_of_another(tmp_path):
    context = multiprocessing.get_context("fork")
    start = context.Barrier(2)
    writers = [context.Process(target=fill, args=(tmp_path, start, who)) for who in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    cache = IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    found = {(who, i): cache.load((who, i)) for who in range(2) for i in range(ENTRIES)}
    assert found == {(who, i): f"code of {who}, {i}" for who in range(2) for i in range(ENTRIES)}


def test_a_cache_that_is_only_read_is_used_without_a_lock(tmp_path, monkeypatch):
    def refuse(path: str) -> None:
        raise PermissionError(path)

    cache = IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    cache.save("key", "code")
    monkeypatch.setattr("cotflow.gradients.shared_cache.FileLock", refuse)
    assert cache.load("key") == "code"
