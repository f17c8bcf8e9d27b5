# The paper, hands on: `marimo edit notebooks/paper.py`, or `marimo run` to read it; `python notebooks/paper.py` runs it all.

import marimo

__generated_with = "0.25.2"
app = marimo.App(
    width="medium",
    app_title="Chain-of-thought state tracking, solvable",
)


@app.cell
def _():
    import marimo as mo
    import numpy as np

    import cotflow as cf
    from cotflow import figures
    from cotflow.theory.limits import onset_time

    return cf, figures, mo, np, onset_time


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # How does a transformer learn to track a state?

    A chain of actions $g_1, \dots, g_L$ acts on a state: $s_t = \sigma_{g_t}(s_{t-1})$. A one-block transformer sees the actions
    and $s_0$, and is trained to write down $s_1, \dots, s_L$. It must learn two things **at the same time**: *attention*, to
    look up the action whose turn it is, and *logic*, to know what each action does. This notebook trains it, solves the theory
    of its learning, and lays the two over each other. Everything below is live: move a slider and see.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    N = mo.ui.slider(5, 32, value=12, label="$N$, number of states", show_value=True)
    L = mo.ui.slider(2, 16, value=6, label="$L$, number of steps", show_value=True)
    d_g = mo.ui.slider(4, 32, value=12, label="$d_g$, number of actions", show_value=True)
    d_h = mo.ui.slider(4, 128, step=2, value=64, label="$d_h$, head dimension", show_value=True)
    lr = mo.ui.slider(0.1, 2.0, step=0.1, value=0.5, label=r"$\eta$, learning rate", show_value=True)
    sliders = mo.vstack([mo.md("**The problem**"), N, L, d_g, d_h, lr])
    sliders
    return L, N, d_g, d_h, lr


@app.cell
def _(L, N, cf, d_g, d_h, lr, onset_time):
    # A trained model needs some units of eta * alpha for its logic, and a few onset times for its attention.
    probe = cf.Config(N=N.value, L=L.value, d_g=d_g.value, d_h=d_h.value, lr=lr.value, n_train_seq=4_096, n_test_seq=128)
    alpha_end = max(5 / probe.lr, 5 * onset_time(probe))
    evaluations = 200
    eval_every = max(1, round(alpha_end / probe.alpha_per_epoch / evaluations))
    cfg = probe.replace(train_epochs=evaluations * eval_every, eval_every=eval_every)
    return (cfg,)


@app.cell(hide_code=True)
def _(cf, cfg, mo, np):
    task = cf.Task(cfg, seed=0)
    _actions, _states = task.train.actions[0], task.train.states[0]
    _chain = " → ".join(
        [f"**{_states[0]}**", *(f"$\\sigma_{{{_a}}}$ → **{_s}**" for _a, _s in zip(_actions, _states[1:]))]
    )
    _first = task.permutations[_actions[0]]
    mo.md(rf"""
    ## 1. The task

    Each of the $d_g = {cfg.d_g}$ actions is a permutation of the $N = {cfg.N}$ states. The first action of the first training
    sequence, $\sigma_{{{_actions[0]}}}$, takes 0, 1, 2, … to {", ".join(map(str, _first[:8]))}{", …" if cfg.N > 8 else ""}.
    The whole sequence goes

    {_chain}

    The prompt holds the actions and the first state; the network has to produce the rest, feeding its own states back. Guessing
    is right once in {cfg.N}; the training loss of a network that knows nothing is $\ln N = {np.log(cfg.N):.2f}$.
    """)
    return (task,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## 2. The model

    With unit embeddings the attention score of predictor $i$ on action $j$ depends on their distance alone,
    $\ell_{ij} = W_Q^T\, \Omega(j - i)\, W_K / \sqrt{d_h}$ with the block rotation $\Omega$ of RoPE, so the attention matrix $\pi$ is the same
    for every sequence. Values are the one-hot actions, so the logic module sees the mixture
    $\sum_j \pi_{ij} M_{g_j}$ of its $d_g$ learnable matrices, applied to the current state. Everything that is learned:
    $W_Q, W_K \in \mathbb{R}^{d_h}$ and $M_1, \dots, M_{d_g} \in \mathbb{R}^{N \times N}$.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    train = mo.ui.run_button(label="Train this model", kind="success", tooltip="every optimiser step's curve, from some eighty gradients")
    seed = mo.ui.number(0, 99, value=0, label="seed")
    mo.hstack([train, seed], justify="start")
    return seed, train


@app.cell
def _(cf, cfg, mo, seed, train):
    # As a script there is nobody to press the button.
    if train.value or mo.app_meta().mode == "script":
        with mo.status.spinner(title=f"training seed {seed.value}"):
            run = cf.simulate(cfg, seed=seed.value)
    else:
        run = None
    return (run,)


@app.cell(hide_code=True)
def _(cf, cfg, mo, run, seed, task):
    from matplotlib.figure import Figure as _Figure

    from cotflow.attention import attention as _attention

    def heatmaps(before, after):
        figure = _Figure(figsize=(6.2 if after is not None else 3.2, 2.6), layout="constrained")
        shown = [("before training", before)] + ([("after", after)] if after is not None else [])
        axes = figure.subplots(1, len(shown), squeeze=False)[0]
        for ax, (title, pi) in zip(axes, shown):
            image = ax.imshow(pi, vmin=0, vmax=1, cmap="cividis")
            ax.set(title=f"attention {title}", xlabel="action $j$", ylabel="predictor $t$")
        figure.colorbar(image, ax=axes)
        return figure

    _start = cf.Params.initial(cfg, seed.value)
    _pi = _attention(cfg, _start.w_q, _start.w_k)
    if run is None:
        _told = mo.md("*Attention starts out nearly uniform. Press the button above to see where it ends.*")
    else:
        _end = run.isel(epoch=-1)
        _made = cf.rollout(cfg, cf.Params.of(run), task.test.actions[:1], task.test.states[:1, 0])[0]
        _told = mo.md(
            f"Trained in {run.attrs['wall_seconds']:.1f} s, with {run.attrs['gradients']} gradients in place of "
            f"{cfg.train_epochs:,} steps: $A$ = {float(_end.A):.3f}, test rollout accuracy "
            f"{float(_end.rollout_accuracy.sel(split='test')):.3f}. The student writes {', '.join(map(str, _made))}; "
            f"the teacher's states are {', '.join(map(str, task.test.states[0]))}."
        )
    mo.vstack([heatmaps(_pi, None if run is None else run.attention.values[-1]), _told])
    return


@app.cell(hide_code=True)
def _(cf, cfg, mo, onset_time):
    _th = cf.theory.closure(cfg)
    mo.md(rf"""
    ## 3. Order parameters, and a theory for them

    Three numbers tell how far learning has come: $A$, the mean attention on the correct action; $R$, the overlap of each matrix $M_a$
    with its own permutation; $S$, its overlap with the other ones. The paper closes their equations of motion with one constant,
    here $c_\omega = {_th.attrs["c_omega"]:.4f}$ (**tier 1**); attention leaves its plateau $A = 1/L$ on the time scale
    $\sqrt{{2/c_\omega}}/\eta = {onset_time(cfg):.2f}$ of $\alpha = \text{{epochs}}/(d_g N)$.

    Two more tiers follow single networks from their own initial weights. **Tier 2**, the quenched mean field, keeps every attention
    weight and replaces the closure constant by the noise in the matrices. **Tier 3** keeps every column of every matrix, and so
    predicts accuracies too. They are solved anew whenever a slider moves.
    """)
    return


@app.cell
def _(cf, cfg, seed):
    theories = [
        cf.theory.closure(cfg),
        cf.theory.quenched(cfg, seed=seed.value),
        cf.theory.column(cfg, seed=seed.value, contexts=1_024),
    ]
    return (theories,)


@app.cell
def _(figures, run, theories):
    figures.order_parameters(*theories, *([] if run is None else [run]))
    return


@app.cell(hide_code=True)
def _(mo, run):
    mo.md(
        "*Train the model above to lay its curves over these.*"
        if run is None
        else "Black: the trained network. The closure knows no seed; tiers 2 and 3 start from this seed's own weights."
    )
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## 4. From one right token to a right chain

    A chain of $L$ steps is right only if no step goes wrong (or a later one repairs it), so the accuracy of the last state rises
    late and sharply. If each step is right with probability $\rho$ and errors have no preference,

    $$P(\text{last state right}) = \frac{N-1}{N}\left(\frac{N\rho - 1}{N - 1}\right)^{L} + \frac1N .$$

    The paper takes $\rho$ from Gaussian logits of constant variance; tier 3 has the logits themselves.
    """)
    return


@app.cell
def _(figures, run, theories):
    figures.accuracies(*theories, run) if run is not None else None
    return


@app.cell(hide_code=True)
def _(cf, mo):
    import warnings
    from pathlib import Path

    results = Path(__file__).resolve().parents[1] / "results" / "main"
    if results.is_dir() and any(results.glob("seed_*.npz")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a seed that is still missing is no concern here
            _all = cf.load(results)
        runs = _all.isel(seed=slice(8))  # tiers 2 and 3 are solved for the same seeds, a second or so for each
        _told = f"The first {runs.sizes['seed']} of {_all.sizes['seed']} seeds in `results/main`, of the paper's main table."
    else:
        import xarray as xr

        _small = cf.Config.preset("smoke")
        with mo.status.spinner(title="training four small seeds"):
            runs = xr.concat(
                [cf.simulate(_small, seed=_seed) for _seed in range(4)], dim="seed", combine_attrs="drop_conflicts"
            ).assign_coords(seed=range(4))
        _told = (
            "`results/main` is not there yet, so these are four seeds of a small problem, made just now. "
            "`make reproduce` makes the paper's."
        )
    mo.md(f"## 5. The paper's figures\n\n{_told}")
    return (runs,)


@app.cell
def _(cf, figures, runs):
    from cotflow.trajectory import config_of

    setting = config_of(runs)
    known = [int(_seed) for _seed in runs.seed.values]
    main_theories = {
        "main": runs,
        "main:closure": cf.theory.closure(setting),
        "main:closure-squared": cf.theory.closure(setting, power=2),
        "main:early": cf.theory.early(setting),
        "main:onset": cf.theory.onset(setting),
        "main:quenched": cf.theory.quenched(setting, seed=known),
        "main:column": cf.theory.column(setting, seed=known, contexts=1_024),
    }
    drawable = {name: entry for name, entry in figures.FIGURES.items() if set(entry.sources) <= set(main_theories)}
    return drawable, main_theories


@app.cell(hide_code=True)
def _(drawable, mo):
    choice = mo.ui.dropdown(
        {f"{entry.title}{f' ({entry.paper} of the paper)' if entry.paper else ''}": name for name, entry in drawable.items()},
        value=next(f"{entry.title}" for name, entry in drawable.items() if name == "tiers"),
        label="figure",
    )
    choice
    return (choice,)


@app.cell
def _(choice, drawable, main_theories, mo):
    _entry = drawable[choice.value]
    _curves = [main_theories[source] for source in _entry.sources]
    mo.vstack([_entry.draw(*_curves), mo.md(f"*{_entry.caption(*_curves)}*")])
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Where to go from here

    `cotflow sweep` runs a grid of configurations, `docs/theory.md` derives tiers 2 and 3, `docs/engines.md` says how twenty thousand
    training steps come from some eighty gradients, and `docs/extending.md` shows how to put in a theory, a figure or an
    engine of one's own.
    """)
    return


if __name__ == "__main__":
    app.run()
