"""Compiled kernels come from the disk cache only while all that went into them is unchanged, and need no cache to work."""

from __future__ import annotations

import numba
import pytest

from cotflow.gradients import compiling, fused, plan


@pytest.mark.parametrize("kernel", [fused._gradient, plan._sort])
def test_the_cache_knows_the_sources_of_the_whole_folder(kernel):
    """Also of kernels without rows in their arguments."""
    assert kernel._cache._cache_file._source_stamp[1] == compiling.SOURCES


def test_another_source_gives_another_digest(tmp_path, monkeypatch):
    (tmp_path / "compiling.py").write_text("")
    (tmp_path / "plan.py").write_text("ITEM_BITS = 12")
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "compiling.py"))
    before = compiling._sources()
    (tmp_path / "plan.py").write_text("ITEM_BITS = 11")
    assert compiling._sources() != before


def test_where_no_cache_can_be_kept_kernels_compile_all_the_same(monkeypatch):
    njit = numba.njit

    def nowhere(*args, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function 'double': no locator available for file")
        return njit(*args, **options)

    monkeypatch.setattr(numba, "njit", nowhere)
    assert compiling.compiled()(lambda x: 2 * x)(21) == 42
