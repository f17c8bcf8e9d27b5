"""Ensembles: what they return, that the executor does not matter, and how far they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

import cotflow as cf
from cotflow.engines import engine_name
from cotflow.engines.steps import Steps
from cotflow.ensembles.jobs import Job, Outcome
from cotflow.ensembles.places import examine
from cotflow.ensembles.processes import ATTEMPTS, Processes, WorkerDied
from cotflow.ensembles.watch import Watch
from cotflow.errors import EnsembleFailed
from cotflow.files import FileFault
from cotflow.gradients import backend as make_backend
from cotflow.status import ensemble_of, survey
from disturbed import die, die_once, same, same_records


class Scaled(Steps):
    """Steps of another learning rate."""

    def __init__(self, cfg, *how, factor):
        super().__init__(cfg.replace(lr=factor * cfg.lr), *how)


def test_records_have_the_same_bits_with_one_process_with_two_and_without(brief, undisturbed, tmp_path):
    for workers in (1, 2):
        directory = tmp_path / str(workers)
        cf.ensemble(brief, range(3), engine="steps", out=directory, workers=workers)
        assert len(list(directory.glob("seed_*.npz"))) == 3
        assert same_records(directory, undisturbed)


def test_without_a_directory_runs_come_back_in_the_order_of_their_seeds(tiny):
    class LastFirst(ThreadPoolExecutor):
        """Runs tasks when the last has been submitted, in reverse."""

        tasks: list = []  # noqa: RUF012

        def submit(self, fn, /, *args, **kwargs):
            future: Future = Future()
            self.tasks.append((future, fn, args))
            if len(self.tasks) == 3:
                for later, function, arguments in reversed(self.tasks):
                    later.set_result(function(*arguments))
            return future

    runs = cf.ensemble(tiny, [4, 0, 2], engine="steps", executor=LastFirst())
    assert runs.seed.values.tolist() == [0, 2, 4]
    for seed in (0, 2, 4):
        alone = cf.simulate(tiny, seed, engine="steps")
        assert runs.sel(seed=seed).A.values.tobytes() == alone.A.values.tobytes()
        assert runs.sel(seed=seed).final_m.values.tobytes() == alone.final_m.values.tobytes()


def test_several_configurations_come_back_as_they_were_given_and_are_not_run_twice(tiny, tmp_path):
    threads = ThreadPoolExecutor(1)
    cfgs = [tiny, tiny.replace(lr=0.25, N=4)]
    first = cf.ensemble(cfgs, range(2), engine="steps", out=tmp_path, executor=threads)
    assert [cf.config_of(runs) for runs in first] == cfgs
    assert sorted(path.parent.name for path in tmp_path.glob("*/seed_0.npz")) == ["N=4,lr=0.25", "N=5,lr=0.5"]
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/seed_*.npz")}
    again = cf.ensemble(cfgs, range(3), engine="steps", out=tmp_path, executor=threads)
    assert [runs.sizes["seed"] for runs in again] == [3, 3]
    assert made == {path: path.stat().st_mtime_ns for path in made}
    named = cf.ensemble({"slow": cfgs[1]}, [0], engine="steps", executor=threads)
    assert list(named) == ["slow"]


def test_a_script_needs_no_main_guard(tiny, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"import cotflow as cf\n\ncfg = cf.Config.from_toml({str(tmp_path / 'c.toml')!r})\n"
        "print('seeds', cf.ensemble(cfg, range(2), engine='steps', workers=1).sizes['seed'])\n"
    )
    (tmp_path / "c.toml").write_text(tiny.to_toml())
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "seeds 2\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engine": "jump"}, "engine = 'jump' does not exist; allowed: leap, flow, steps"),
        ({"colour": "red"}, "ensemble takes no option colour; allowed: "),
        ({"seeds": []}, "seeds is empty"),
        ({"executor": 3}, "executor = 3 cannot run anything; allowed: an executor"),
        (
            {"executor": ThreadPoolExecutor},
            r"<class .*ThreadPoolExecutor'> cannot run .* such as ThreadPoolExecutor\(2\)",
        ),
        ({"workers": 0}, "workers = 0 is not allowed"),
        ({"workers": True}, "workers = True is not allowed; allowed: whole numbers from 1"),
        ({"configs": []}, "configs is empty"),
        ({"configs": {}}, "configs is empty"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(tiny, change, message):
    arguments = {"configs": tiny, "seeds": [0], **change}
    with pytest.raises(ValueError, match=message):
        cf.ensemble(**arguments)


def test_a_task_that_always_kills_its_process_fails_alone(tmp_path):
    with Processes(2) as pool:
        deadly, unlucky, good = pool.submit(die), pool.submit(die_once, str(tmp_path / "died")), pool.submit(os.getpid)
        assert good.result() != os.getpid()
        assert unlucky.result() == "alive"
        with pytest.raises(WorkerDied, match=f"killed {ATTEMPTS} times"):
            deadly.result()
        assert pool.deaths == ATTEMPTS + 1


def test_progress_is_readable_in_a_log(tiny, tmp_path, capsys):
    watch = Watch(show=True, state=tmp_path / "state.json", every=0.0)
    jobs = [Job("lr=0.5", tiny, seed) for seed in range(4)]
    watch.begin(jobs, there=2, plan={"points": ["lr=0.5"], "seeds": [0, 1]})
    watch.over(jobs[0], Outcome("done"))
    watch.over(jobs[1], Outcome("failed", cause="the loss is no longer finite"))
    watch.tick(1)
    watch.end()
    lines = [line.split("  ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert lines[0] == "2 of 6 done, 0 running, 0 failed, 4 waiting"
    assert "lr=0.5 seed 1 failed: the loss is no longer finite" in lines
    assert "3 of 6 done, 1 running, 1 failed, 1 waiting, about 0 s left" in lines
    state = json.loads((tmp_path / "state.json").read_text())
    assert (state["done"], state["failed"], state["total"]) == (3, 1, 6)


def test_the_time_left_follows_the_cost_of_what_is_left(tiny, monkeypatch):
    watch = Watch(show=False)
    cheap, dear = Job("a", tiny, 0), Job("b", tiny.replace(n_train_seq=640), 0)
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    watch.begin([cheap, dear], 0, {})
    monkeypatch.setattr("time.monotonic", lambda: 107.0)
    watch.over(cheap, Outcome("done"))
    assert watch.seconds_left == pytest.approx(70.0)


def test_status_tells_what_waits(tiny, tmp_path):
    cfgs = {"a": tiny, "b": tiny.replace(lr=0.25)}
    cf.ensemble(cfgs, range(3), engine="steps", out=tmp_path, executor=ThreadPoolExecutor(1))
    (tmp_path / "b" / "seed_1.npz").unlink()
    rows = {row.name: row for row in survey(tmp_path)}
    assert (rows["a"].done, rows["b"].done, rows["b"].waiting) == ([0, 1, 2], [0, 2], [1])
    whole = ensemble_of(tmp_path)
    assert whole is not None
    assert not whole.at_work


def test_an_ensemble_of_leap_runs_has_the_bits_of_single_ones(tiny, tmp_path):
    once = cf.ensemble(tiny, range(2), out=tmp_path / "once", executor=ThreadPoolExecutor(1))
    assert once.attrs["engine"] == "leap"
    for seed in range(2):
        assert same(cf.load(tmp_path / "once" / f"seed_{seed}.npz"), cf.simulate(tiny, seed))


def test_partials_of_ones_own_engine_are_told_apart(tiny, tmp_path):
    """Records of one are not taken for those of another, and worker processes are not asked for what they cannot import."""
    here, first = ThreadPoolExecutor(1), partial(Scaled, factor=1.0)
    cf.ensemble(tiny, [0], engine=first, executor=here, out=tmp_path)
    assert cf.load(tmp_path / "seed_0.npz").attrs["engine"] == "scaled(factor=1.0)"
    with pytest.raises(FileFault, match=r"engine = 'scaled\(factor=1.0\)', now 'scaled\(factor=0.5\)'"):
        cf.ensemble(tiny, [0], engine=partial(Scaled, factor=0.5), executor=here, out=tmp_path)
    assert engine_name(partial(Scaled, factor=object())) == "scaled(factor=object)"  # not where in memory it lies
    local = type("Local", (Scaled,), {"__module__": "__main__"})
    with pytest.raises(ValueError, match="engine Local is defined in the script itself"):
        cf.ensemble(tiny, [0], engine=partial(local, factor=1.0))


def test_a_backend_of_pytorch_travels(tiny):
    runs = cf.ensemble(tiny, [0], backend=make_backend("torch"), workers=1)
    assert runs.attrs["backend"] == "torch"
    assert runs.A[0].values == pytest.approx(cf.simulate(tiny, 0, backend="torch").A.values, abs=1e-6)


def test_a_checkpoint_outlives_a_run_out_of_budget_that_travels(tiny, tmp_path):
    threads = ThreadPoolExecutor(1)
    with pytest.raises(EnsembleFailed, match="gradients"):
        cf.ensemble(tiny, [0], executor=threads, out=tmp_path, max_gradients=5)
    rest = tmp_path / "seed_0.checkpoint.npz"
    before = rest.read_bytes()
    with pytest.raises(EnsembleFailed, match="gradients"):
        cf.ensemble(tiny, [0], executor=threads, shared=False, out=tmp_path, max_gradients=5)
    assert rest.read_bytes() == before


def test_a_file_that_another_process_has_mended_is_not_set_aside(tiny, tmp_path):
    file = tmp_path / "seed_0.npz"
    file.write_bytes(b"PK damaged")
    found = examine(tmp_path, tiny, {"engine": "leap"}, {})
    cf.save(cf.simulate(tiny, 0), file)
    assert found.set_aside([0]) == []
    assert [each.name for each in tmp_path.glob("seed_*")] == ["seed_0.npz"]


def test_ones_own_engine_is_run_and_its_records_are_found_again(tiny, tmp_path):
    class Mine(Steps):
        """Steps by another name."""

    threads = ThreadPoolExecutor(1)
    first = cf.ensemble(tiny, range(2), engine=Mine, executor=threads, out=tmp_path)
    assert first.attrs["engine"] == "mine"
    assert cf.ensemble(tiny, range(2), engine=Mine, executor=threads, out=tmp_path).identical(first)
    Mine.__module__ = "__main__"
    with pytest.raises(ValueError, match="engine Mine is defined in the script itself"):
        cf.ensemble(tiny, range(2), engine=Mine)
