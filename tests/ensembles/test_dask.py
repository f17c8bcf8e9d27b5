"""Ensembles under Dask: workers with no file in common with the caller, and a scheduler that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import cotflow as cf
from cotflow.errors import PoolLost
from disturbed import same_records, wait_for

distributed = pytest.importorskip("distributed")


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and two worker processes of one thread each, started as on a cluster: the address, and the scheduler's pid."""
    file = tmp_path / "scheduler.json"
    place = {"cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    dask = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen(
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)], **place
    )
    wait_for(lambda: file.exists() and file.stat().st_size > 0)
    address = json.loads(file.read_text())["address"]
    workers = subprocess.Popen(
        [*dask, "worker", address, "--nworkers", "2", "--nthreads", "1", "--no-dashboard", "--death-timeout", "10"], **place
    )
    yield address, scheduler.pid
    for each in (workers, scheduler):
        if each.poll() is None:
            os.killpg(each.pid, signal.SIGKILL)
        each.wait()


def test_records_have_the_same_bits_under_dask_and_a_lost_scheduler_costs_what_was_unfinished(
    cluster, brief, undisturbed, tmp_path
):
    address, scheduler = cluster
    out = tmp_path / "out"
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        cf.ensemble(brief, range(2), engine="steps", executor=client, out=out)
        assert same_records(out, undisturbed)
        assert len(list(out.glob("seed_*.npz"))) == 2
        as_executor = cf.ensemble(brief, [2], engine="steps", executor=client.get_executor(), out=tmp_path / "other")
        assert as_executor.seed.values.tolist() == [2]
        assert same_records(tmp_path / "other", undisturbed)

        def kill() -> None:
            wait_for(lambda: (out / "seed_2.npz").exists() or (out / "seed_3.npz").exists())
            os.kill(scheduler, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(
            PoolLost, match=r"the Dask scheduler was lost.*of 40 runs are recorded in .*; the same command goes on"
        ):
            cf.ensemble(brief, range(40), engine="steps", executor=client, out=out)
        killer.join()
    for executor in (client, client.get_executor()):
        with pytest.raises(PoolLost, match=r"the Dask scheduler was lost|the executor takes no more runs"):
            cf.ensemble(brief, [2], engine="steps", executor=executor)
    kept = cf.load(out, [0, 1]).seed.values.tolist()
    assert kept == [0, 1]
    left = len(list(out.glob("seed_*.npz")))
    assert 3 <= left < 40
    runs = cf.ensemble(brief, range(5), engine="steps", executor=ThreadPoolExecutor(1), out=out)
    assert runs.seed.values.tolist() == list(range(5))
    assert (out / "seed_0.npz").exists()


def test_ctrl_c_ends_a_sweep_whose_scheduler_hangs(cluster, grid, sweep, tmp_path):
    address, scheduler = cluster
    run = sweep(grid, tmp_path / "out", "--scheduler", address, "--seeds", "0:40")
    wait_for(lambda: list((tmp_path / "out").glob("seed_*.npz")))
    os.kill(scheduler, signal.SIGSTOP)
    time.sleep(2.5)  # until a question is on its way
    os.kill(run.process.pid, signal.SIGINT)
    code, _, complaints = run.end(60)
    assert code == 130
    assert [line for line in complaints.splitlines() if line.startswith("cotflow: interrupted; ")]


def test_a_cluster_is_no_client():
    with (
        distributed.LocalCluster(processes=False, n_workers=0, dashboard_address=None) as local,
        pytest.raises(ValueError, match=r"executor = LocalCluster.* cannot run anything; allowed: .* a Dask client"),
    ):
        cf.ensemble(cf.Config.preset("smoke"), [0], executor=local)


def test_no_scheduler_where_one_was_named_is_told_in_a_sentence():
    from cotflow.ensembles.dask import connect

    with pytest.raises(PoolLost, match=r"no Dask scheduler answers at tcp://127.0.0.1:1"):
        connect("tcp://127.0.0.1:1", timeout=0.5)
