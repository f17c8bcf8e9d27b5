"""Every figure shows what it says: the curves drawn are the data, captions count seeds, any sources lie over each other."""

from __future__ import annotations

import re

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import cotflow as cf
from cotflow.figures import FIGURES, order_parameters, rollout, save, to_svg, training_set_size, transition_times
from cotflow.figures.derived import crossings, gaussian_accuracies, mean_field_loss_of
from cotflow.figures.single_seeds import choose
from cotflow.figures.sources import settled
from cotflow.figures.style import LOOKS, STYLE, WIDTHS
from cotflow.figures.tiers import error
from cotflow.figures.transition_times import along, varied
from cotflow.theory.rollout import gaussian_rollout


def line(figure: Figure, panel: int, color: str) -> np.ndarray:
    """The heights of the first line of a colour."""
    return next(
        drawn for drawn in figure.axes[panel].lines if drawn.get_color() == color and len(drawn.get_xdata()) > 2
    ).get_ydata()


def words(figure: Figure) -> list[str]:
    """Names in the figure's legends."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def sources(name, runs, tiers, tiny):
    """Trajectories for any figure."""
    if name == "training_set_size":
        return [runs, cf.simulate(tiny.replace(n_train_seq=32), 0).expand_dims(seed=[0]), *tiers.values()]
    if name == "transition_times":
        other = tiny.replace(lr=1.0)
        return [runs, cf.simulate(other, 0), tiers["closure"], cf.theory.closure(other)]
    return [runs, *tiers.values()]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_the_promised_width_and_a_caption_with_its_seeds(name, width, runs, tiers, tiny):
    curves = sources(name, runs, tiers, tiny)
    figure = FIGURES[name].draw(*curves, width=width)
    figure.draw_without_rendering()
    assert figure.get_figwidth() in (WIDTHS[width], WIDTHS["column"])  # a single panel is a column wide
    assert name == "setup" or re.search(r"\b(seed 0|3 seeds|1 seed|1 to 3 seeds)\b", FIGURES[name].caption(*curves))


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in ("training_set_size", "transition_times")])
def test_one_seed_is_enough_and_has_no_spread(name, runs, tiny):
    one = runs.sel(seed=4).assign_attrs(seed=4)
    figure = FIGURES[name].draw(one, cf.theory.closure(tiny))
    figure.draw_without_rendering()
    caption = FIGURES[name].caption(one)
    assert "standard deviation, " not in caption


def test_what_is_drawn_is_the_mean_and_one_standard_deviation(runs, tiers):
    figure = order_parameters(runs, tiers["closure"])
    for panel, name in enumerate("ARS"):
        assert np.array_equal(line(figure, panel, LOOKS["simulation"].color), runs[name].mean("seed"))
        assert np.array_equal(line(figure, panel, LOOKS["closure"].color), tiers["closure"][name])
        band = figure.axes[panel].collections[0].get_paths()[0].vertices[:, 1]
        mean, spread = runs[name].mean("seed").values, runs[name].std("seed", ddof=1).values
        assert np.isclose(band.max(), (mean + spread).max())
        assert np.isclose(band.min(), (mean - spread).min())


def test_sources_are_interchangeable_and_named(runs, tiers):
    assert words(order_parameters(tiers["column"], runs, tiers["quenched"])) == [
        "simulation, 3 seeds",
        "quenched (tier 2)",
        "columns (tier 3)",
    ]
    assert words(order_parameters(tiers["closure"])) == ["closure (tier 1)"]
    assert words(rollout(runs, tiers["quenched"])) == ["simulation, 3 seeds"]  # tier 2 predicts no accuracies


def test_errors_are_taken_over_the_seeds_that_both_have(runs, tiers):
    fewer = tiers["quenched"].sel(seed=[4])
    expected = fewer.A.sel(seed=4) - runs.A.sel(seed=4)
    assert np.allclose(error(runs, fewer, "A"), expected, atol=1e-15)
    assert np.isnan(error(runs, fewer.assign_coords(seed=[7]), "A")).all()


def test_the_formula_with_measured_variances_is_the_papers(runs, tiny):
    logits = runs.sel(split="train").mean("seed")
    expected = gaussian_rollout(logits.mu_k.values, logits.var_k.values, logits.mu_o.values, logits.var_o.values, tiny.N, tiny.L)
    found = gaussian_accuracies(runs)
    assert np.allclose(found["next_token_accuracy"], expected[0])
    assert np.allclose(found["rollout_accuracy"], expected[1])
    constant = gaussian_accuracies(runs, constant=True)
    assert np.isclose(constant["rollout_accuracy"][0], found["rollout_accuracy"][0])
    assert not np.allclose(constant["rollout_accuracy"], found["rollout_accuracy"], atol=1e-3)


def test_the_mean_field_loss_of_a_run_is_at_its_own_order_parameters(runs, tiny):
    one = runs.isel(seed=1)
    mu_k = one.A * one.R + (1 - one.A) / tiny.d_g * one.R + (tiny.d_g - 1) / tiny.d_g * (1 - one.A) * one.S
    mu_o = (one.zeta - mu_k) / (tiny.N - 1)
    expected = -mu_k + np.log(np.exp(mu_k) + (tiny.N - 1) * np.exp(mu_o))
    assert np.allclose(mean_field_loss_of(runs).loss.isel(seed=1), expected)


def test_crossings_interpolate_and_are_nan_where_a_curve_stays_below(runs):
    level = float(runs.R.isel(seed=0, epoch=[3, 4]).mean())
    expected = float(runs.alpha[3:5].mean())
    assert np.isclose(crossings(runs, "R", level)[0], expected)
    assert np.isnan(crossings(runs, "R", 1e6)).all()


def locked(runs, times):
    """The runs with curves A that rise from 0 to 1 at these training times, or never."""
    A = np.array([np.where(runs.alpha.values >= time, 1.0, 0.0) for time in times])
    return runs.assign(A=(("seed", "epoch"), A))


def test_single_seeds_are_chosen_among_those_that_lock_in(runs, tiers):
    later = [float(runs.alpha[4]), float(runs.alpha[2]), np.inf]
    run = locked(runs, later)
    assert choose(run, []) == [0, 1]
    caption = FIGURES["single_seeds"].caption(run, tiers["column"])
    assert "1 seed does not reach A = 1/2." in caption
    assert "the latest" not in caption
    assert choose(locked(runs, [np.inf] * 3), []) == [0, 1, 4]
    assert "the latest" not in FIGURES["single_seeds"].caption(locked(runs, [np.inf] * 3))
    all_of_them = FIGURES["single_seeds"].caption(locked(runs, [float(runs.alpha[k]) for k in (1, 2, 3)]))
    assert "0, 1 and 4: the earliest, the middle and the latest to reach A = 1/2)" in all_of_them


def test_transition_times_count_the_runs_that_reach_neither_level(runs, tiny):
    run = locked(runs, [0.0, np.inf, np.inf]).assign(rollout_accuracy=0 * runs.rollout_accuracy)
    caption = FIGURES["transition_times"].caption(run, cf.theory.closure(tiny.replace(lr=1.0)))
    assert "2 simulated runs do not reach A = 1/2. 3 simulated runs do not reach rollout accuracy 1/2." in caption


@pytest.mark.parametrize("cfg", [cf.Config.preset("robustness"), cf.Config.preset("main", L=5), cf.Config.preset("main")])
def test_the_caption_of_rollouts_says_that_variances_are_constant(cfg):
    assert "constant at their initial value, 0.0" in FIGURES["rollout"].caption(cf.theory.closure(cfg))


def test_an_axis_ends_when_little_happens_any_more(runs):
    step = runs.assign(A=(runs.A.dims, np.where(runs.epoch.values >= 20, 1.0, 0.1) * np.ones((3, 1))))
    assert np.isclose(settled([step], "A"), 1.5 * float(runs.alpha[2]))
    late = runs.assign(A=(runs.A.dims, np.where(runs.epoch.values >= 50, 1.0, 0.1) * np.ones((3, 1))))
    assert settled([late], "A") == float(runs.alpha[-1])


def test_a_sweep_has_one_panel_for_fields_that_vary_in_step(tiny):
    points = [cf.theory.closure(tiny.replace(N=n, d_g=n, lr=lr)) for n in (4, 6) for lr in (0.5, 1.0)]
    assert varied(points) == {"N": ["d_g"], "lr": []}
    figure = transition_times(*points)
    assert len(figure.axes) == 2
    with pytest.raises(ValueError, match="at least two configurations"):
        transition_times(points[0])


def test_a_panel_of_transition_times_shows_what_differs_along_its_axis_alone(runs, tiny):
    """A point that never crosses leaves its partner, and does not let in points that differ in something else."""
    never = locked(runs, [np.inf] * 3)
    points = [
        locked(runs, [0.5, 1.0, 1.5]),
        never.assign_attrs(config=tiny.replace(d_h=4).model_dump_json()),
        locked(runs, [2.5] * 3).assign_attrs(config=tiny.replace(lr=1.0).model_dump_json()),
    ]
    points = [data.drop_vars("rollout_accuracy") for data in points]
    assert [cf.config_of(data).d_h for data in along(points, "d_h", [])] == [6, 4]
    panels = dict(zip(varied(points), transition_times(*points).axes, strict=True))
    marks = {name: [line.get_ydata().tolist() for line in ax.lines if line.get_marker() == "o"] for name, ax in panels.items()}
    assert marks == {"d_h": [[0.75]], "lr": [[0.75, 2.25]]}  # half way between the evaluations before and after


def test_attention_entries_ask_for_a_source_that_has_them(tiers):
    with pytest.raises(ValueError, match="needs a simulation, or a theory of tier 2 or 3"):
        FIGURES["attention_entries"].draw(tiers["closure"])
    FIGURES["attention_entries"].draw(tiers["closure"], tiers["quenched"])


def test_training_set_sizes_ask_for_two(runs, tiers):
    with pytest.raises(ValueError, match="at least two values of n_train_seq"):
        training_set_size(runs, *tiers.values())


def test_figures_leave_the_callers_settings_alone(runs):
    before = dict(matplotlib.rcParams)
    order_parameters(runs)
    assert dict(matplotlib.rcParams) == before


def test_an_unknown_width_or_format_is_refused(runs, tmp_path):
    with pytest.raises(ValueError, match=r"width = 'wide' is not allowed; allowed: full, column"):
        order_parameters(runs, width="wide")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"format = 'gif' is not allowed"):
        save(order_parameters(runs), tmp_path / "x", ["gif"])


def test_a_name_with_the_suffix_of_a_format_is_that_one_file(runs, tmp_path):
    assert save(order_parameters(runs), tmp_path / "x.png") == [tmp_path / "x.png"]
    assert [file.name for file in tmp_path.iterdir()] == ["x.png"]


def test_captions_say_in_what_sources_differ(runs, tiny):
    caption = FIGURES["order_parameters"].caption
    assert "Sources differ" not in caption(runs, cf.theory.closure(tiny.replace(train_epochs=30)))
    assert "Sources differ: lr = 0.5 and 1.0." in caption(runs, cf.theory.closure(tiny.replace(lr=1.0)))


def test_files_are_reproducible_and_svg_follows_the_colour_scheme(runs, tmp_path):
    for kind in ("png", "pdf", "svg"):
        (first,), (second,) = (save(order_parameters(runs), tmp_path / str(k), [kind]) for k in (1, 2))
        assert first.read_bytes() == second.read_bytes()
    svg = to_svg(order_parameters(runs))
    assert "prefers-color-scheme:dark" in svg
    assert LOOKS["simulation"].color not in svg.partition("</style>")[2]  # all ink is a variable of the scheme


def test_every_colour_of_the_palette_reads_on_a_dark_page():
    from cotflow.figures.output import ON_DARK
    from cotflow.figures.style import FAINT

    def luminance(color: str) -> float:
        channels = np.array([int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    page = luminance(re.search(r"prefers-color-scheme: dark.*?--paper: (#\w+)", page_style(), re.S)[1])
    for light, dark in ON_DARK.items():
        if light != FAINT:
            assert (luminance(dark) + 0.05) / (page + 0.05) > 4.5
    assert {look.color for look in LOOKS.values()} | {STYLE["text.color"]} <= set(ON_DARK)


def page_style() -> str:
    from importlib.resources import files

    return files("cotflow.report").joinpath("page.css").read_text()
