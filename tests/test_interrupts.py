"""Ctrl-C is heard within seconds, whatever is running.

All cases run in one other process, which tells how long each took to hear the interrupt.
The bound is on deafness, not on speed: each of them would go on for minutes at least.
"""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import permatch as pm
from permatch.cuda.driver import available
from permatch.inference import ENGINES

#: The engines that can run here.
HERE = ENGINES.keys() - ({"glynn_cuda"} if available() is not None else set())

# What runs for long, after something short of its kind to compile the kernels.
CHILD = """
import json, os, signal, sys, threading, time, warnings
import numpy as np
import permatch as pm
from permatch.inference import ENGINES

# The parent may ignore the signal (nohup), and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
flat, peaked = rng.normal(size=(1000, 1000)), rng.normal(size=(700, 700)) + 40 * np.eye(700)
batch = rng.normal(size=(20_000, 8, 8))


def run(engine, size, n_jobs=None):
    return lambda: engine.infer(flat[:size, :size], n_jobs=n_jobs)


def forever(work):
    def repeat():
        while True:
            work()
    return repeat


CASES = {
    "auto": (run(pm.AutoEngine(), 40), run(pm.AutoEngine(tol=1e-6, budget=None), 60)),
    "small_batch": (
        lambda: pm.SmallBatch().infer(batch[:9]),
        forever(lambda: pm.SmallBatch().infer(batch)),
    ),
    "glynn": (run(pm.Glynn(), 20), run(pm.Glynn(max_size=40), 40)),
    "subset_dp": (run(pm.SubsetDP(), 18), forever(run(pm.SubsetDP(max_size=25), 25))),
    "frontier": (run(pm.Frontier(), 18), forever(run(pm.Frontier(), 22))),
    "ryser": (run(pm.Ryser(), 9), run(pm.Ryser(max_size=36), 36)),
    "enumeration": (run(pm.Enumeration(), 9), run(pm.Enumeration(max_size=13), 13)),
    "sparsified": (
        lambda: pm.Sparsified().infer(peaked[:450, :450]),
        forever(lambda: pm.Sparsified().infer(peaked)),
    ),
    "bethe": (run(pm.Bethe(), 450), run(pm.Bethe(max_iter=10**9, tol=0.0), 1000)),
    "nesting": (
        run(pm.Nesting(tol=0.1), 60),
        run(pm.Nesting(tol=1e-6, max_samples=10**9, particles=None), 60),
    ),
    "swap_chain": (
        run(pm.SwapChain(n_sweeps=50), 100), run(pm.SwapChain(n_sweeps=10**7), 100)
    ),
    "huber_law": (
        run(pm.HuberLaw(n_samples=5), 9),
        run(pm.HuberLaw(n_samples=10**7, max_trials=10**12), 14),
    ),
    "path_tree": (
        lambda: pm.PathTree(budget=0.1).infer(
            flat[:200, :200], unmatched_left=0.0, unmatched_right=0.0
        ),
        lambda: pm.PathTree(tol=1e-9).infer(
            flat[:200, :200], unmatched_left=0.0, unmatched_right=0.0
        ),
    ),
    "particles": (
        run(pm.Nesting(particles=64), 60), run(pm.Nesting(particles=100_000), 60)
    ),
    "threads": (
        run(pm.SwapChain(n_sweeps=50), 50, 2), run(pm.SwapChain(n_sweeps=10**7), 50, 2)
    ),
    "stacks on threads": (
        lambda: pm.Nesting(tol=0.1).infer(batch[:2], n_jobs=2),
        lambda: pm.Nesting(tol=1e-6, max_samples=10**9, particles=None).infer(
            np.stack([flat[:60, :60], flat[60:120, :60]]), n_jobs=2
        ),
    ),
    "assignment on edges": (
        lambda: pm.best_matching(flat[:30, :30], unmatched_left=0.0, unmatched_right=0.0),
        lambda: pm.best_matching(
            -np.multiply.outer(np.arange(2500.0), np.arange(2500.0)),
            unmatched_left=-1e9, unmatched_right=-1e9,
        ),
    ),
    "k_best": (
        lambda: pm.k_best(flat[:30, :30], 10),
        lambda: pm.k_best(flat[:30, :30], 2_000_000),
    ),
    "sample": (
        lambda: pm.MatchingDistribution(flat[:8, :8]).sample(10, rng=0),
        forever(lambda: pm.MatchingDistribution(flat[:16, :16]).sample(10**6, rng=0)),
    ),
    "best_matching": (
        lambda: pm.best_matching(np.eye(1001)),
        forever(lambda: pm.best_matching(np.outer(range(1200), range(1200)))),
    ),
}
for name in set(sys.argv[1:]) - CASES.keys():
    engine = ENGINES[name]()
    CASES[name] = run(engine, 5), forever(run(engine, min(engine.max_size, 60)))


for name, (short, long) in CASES.items():
    short()
    sent = 0.0

    def interrupt():
        global sent
        sent = time.perf_counter()
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(0.5, interrupt)
    timer.start()
    try:
        long()
    except KeyboardInterrupt:
        seconds = time.perf_counter() - sent
        timer.join()
        print(json.dumps([name, seconds]), flush=True)
"""


@pytest.mark.slow
def test_every_long_run_hears_an_interrupt():
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *HERE],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    heard = dict(json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0, (heard, done.stderr)
    assert heard.keys() > HERE | {"stacks on threads", "k_best", "sample"}
    assert max(heard.values()) < 5.0, heard


@pytest.mark.parametrize("free", [None, 0.0])
def test_an_interrupt_as_a_kernel_returns_is_one(monkeypatch, free):
    # What Python makes of an exception that Numba overlooks.
    def interrupted(*_):
        raise SystemError("a result with an exception set") from KeyboardInterrupt()

    for name in ("_infer_stack", "_infer_problem"):
        monkeypatch.setattr(pm.Frontier, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        pm.infer(np.zeros((2, 2)), "frontier", unmatched_left=free, unmatched_right=free)


# A fit that tells when it evaluates, started as from a shell.
FIT = """
import signal, sys
from permatch.cli.main import app
from permatch.objectives import MatchingLikelihood

signal.signal(signal.SIGINT, signal.default_int_handler)
whole = MatchingLikelihood.evaluate


def told(self, coef):
    print("evaluation", flush=True)
    return whole(self, coef)


MatchingLikelihood.evaluate = told
app(["match", "fit", *sys.argv[1:]])
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("more", [[], ["--cv", "--folds", "2"]])
def test_ctrl_c_from_outside_writes_the_best_model_so_far(tmp_path, rng, more):
    table, path = tmp_path / "pairs.csv", tmp_path / "model.json"
    lines = ["graph,left,right,label,x,y"]
    for g in range(6):
        for i in range(16):
            for j in range(16):
                is_match = int(i == j and i > 2)
                x, y = rng.normal(size=2) + 2.0 * is_match
                lines.append(f"g{g},a{i},b{j},{is_match},{x:.4f},{y:.4f}")
    table.write_text("\n".join(lines))
    options = [str(table), "--model", str(path), "--alpha" if not more else "--alphas"]
    options += ["1e-9" if not more else "1,1e-3,1e-6,1e-9", *more]
    with subprocess.Popen(
        [sys.executable, "-c", FIT, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as fit:
        for _ in range(6):
            assert fit.stdout.readline() == "evaluation\n"
        fit.send_signal(signal.SIGINT)
        _, errors = fit.communicate(timeout=120)
    assert fit.returncode == 130, errors
    assert f"the best model so far is in {path}." in errors
    model = pm.load(path)
    assert model.coef_.any()
    assert not model.is_converged_
