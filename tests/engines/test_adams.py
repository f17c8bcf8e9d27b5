"""The summation Adams method on problems whose discrete trajectory is known."""

from __future__ import annotations

import numpy as np
import pytest

from cotflow.engines.adams import ARRAYS, Adams
from cotflow.engines.laws import Plain
from cotflow.engines.quadrature import INTEGRAL, SUM
from cotflow.errors import BudgetExceeded, Diverged, RunFailed


def run(adams: Adams) -> Adams:
    while adams.epoch < adams.end:
        adams.advance()
    return adams


def unforced(f):
    """A law x -> f(x) without a loss."""
    return lambda x, epoch: (0.0, f(x))


def iterate(f, x, eta, epochs):
    states = [np.array(x)]
    for _ in range(epochs):
        states.append(states[-1] + eta * f(states[-1]))
    return np.array(states)


LINEAR = np.array([-1.0, -0.3, 0.5])
MAPS = {
    "linear": (lambda x: LINEAR * x, [1.0, 1.0, 1.0], 30_000),
    "logistic": (lambda x: x * (1 - x), [0.02, 0.1], 50_000),
}


@pytest.mark.parametrize(("h", "degree"), [(1, 5), (3, 7), (50, 9), (100_000, 9)])
def test_the_rules_add_up_polynomials_exactly(h, degree):
    coefficients = np.random.default_rng(0).normal(size=degree + 1)
    nodes = -np.arange(degree + 1.0) * h / 3 - 1
    k = np.arange(h)
    newton = [np.prod([k / h - n / h for n in nodes[:j]], axis=0) * np.ones(h) for j in range(degree + 1)]
    expected = sum(c * part.sum() for c, part in zip(coefficients, newton, strict=True))
    scale = np.float64(h) ** np.arange(degree + 1)
    assert SUM.moments(nodes, 0, h)[:-1] / scale @ coefficients == pytest.approx(expected, rel=1e-12)
    # Legendre's rule against an antiderivative
    exact = sum(c * np.polyval(np.polyint(np.atleast_1d(np.poly(nodes[:j] / h))), 1.0) * h for j, c in enumerate(coefficients))
    assert INTEGRAL.moments(nodes, 0, float(h))[:-1] / scale @ coefficients == pytest.approx(exact, rel=1e-10)


def test_held_at_one_epoch_it_is_gradient_descent_to_the_last_bit():
    f, x0, _ = MAPS["logistic"]
    adams = Adams(Plain(unforced(f), 0.3, SUM), np.array(x0), 40, max_step=1)
    for expected in iterate(f, x0, 0.3, 40)[1:]:
        adams.advance()
        assert adams.x.tobytes() == expected.tobytes()
    assert adams.gradients == 41


@pytest.mark.parametrize("degree", range(6))
def test_a_force_that_is_a_polynomial_in_time_is_summed_exactly_up_to_the_order(degree):
    """State (t, y), t counting epochs and y driven by a polynomial in t: only the order that sees it all takes long steps."""
    c = np.random.default_rng(degree).normal(size=degree + 1)
    eta, epochs = 0.5, 4000

    def f(x):
        return np.array([1 / eta, np.polyval(c, x[0] / epochs)])

    adams = run(Adams(Plain(unforced(f), eta, SUM), np.zeros(2), epochs, rtol=0, atol=1e-9, max_order=8))
    expected = eta * np.polyval(c, np.arange(epochs) / epochs).sum()
    assert adams.x[1] == pytest.approx(expected, rel=1e-11)
    # With more steps than a few the order would not have been recognised
    assert adams.steps < 60


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_fitted_order_of_convergence(name, order):
    """A predictor of order q is of order h^(q+1) a step, and so, corrected, is the error of the whole run."""
    f, x0, epochs = MAPS[name]
    exact = iterate(f, x0, 0.0002, epochs)
    lengths, errors = [], []
    for tolerance in 10.0 ** -np.arange(order + 3.0, order + 5.5, 0.5):
        adams, worst = Adams(Plain(unforced(f), 0.0002, SUM), np.array(x0), epochs, rtol=0, atol=tolerance, max_order=order), 0.0
        while adams.epoch < epochs:
            adams.advance()
            worst = max(worst, np.abs(adams.x - exact[int(adams.epoch)]).max())
        assert worst < 2 * tolerance
        lengths.append(epochs / adams.steps)
        errors.append(worst)
    slope = np.polyfit(np.log(lengths), np.log(errors), 1)[0]
    assert order + 0.6 < slope < order + 1.7


def test_the_integral_rule_follows_the_flow_and_the_sum_rule_does_not():
    f, x0, _ = MAPS["linear"]
    x0 = np.array(x0)
    flow = run(Adams(Plain(unforced(f), 0.01, INTEGRAL), x0, 300, rtol=0, atol=1e-9)).x
    leap = run(Adams(Plain(unforced(f), 0.01, SUM), x0, 300, rtol=0, atol=1e-9)).x
    assert flow == pytest.approx(np.exp(3 * LINEAR) * x0, abs=2e-8)
    assert leap == pytest.approx((1 + 0.01 * LINEAR) ** 300 * x0, abs=2e-8)
    assert np.abs(flow - leap).max() > 1e-3


@pytest.mark.parametrize("rule", [SUM, INTEGRAL])
def test_dense_output_and_loss_are_of_the_integrators_own_quality(rule):
    """A quadratic bowl: x and the loss at every epoch between steps, against the closed solution."""
    curvature, eta, epochs = np.array([1.0, 0.4]), 0.002, 3000
    x0 = np.array([1.0, -2.0])

    def bowl(x, epoch):
        return 0.5 * float(curvature @ x**2), -curvature * x

    factor = 1 - eta * curvature if rule is SUM else np.exp(-eta * curvature)
    adams = Adams(Plain(bowl, eta, rule), x0, epochs, rtol=0, atol=1e-7)
    worst_x, worst_v, longest = 0.0, 0.0, 0.0
    while adams.epoch < epochs:
        adams.advance()
        longest = max(longest, adams.span[1] - adams.span[0])
        for epoch in range(int(np.ceil(adams.span[0])), int(adams.span[1]) + 1):
            x, v = adams.at(epoch)
            exact = factor**epoch * x0
            worst_x = max(worst_x, np.abs(x - exact).max())
            worst_v = max(worst_v, abs(v - 0.5 * curvature @ exact**2))
    assert longest > 30
    assert worst_x < 3e-7
    assert worst_v < 3e-6


def test_a_block_of_two_weights_is_not_drowned_by_ten_thousand_quiet_ones():
    """Error is judged block by block: the same two weights beside a large quiet block are followed as well as alone."""

    def f(x):
        return np.concatenate([[x[1], -x[0]], np.zeros(len(x) - 2)])

    eta, epochs = 0.01, 600
    exact = iterate(f, np.array([1.0, 0.0]), eta, epochs)[-1]
    x0 = np.concatenate([[1.0, 0.0], np.ones(10_000)])
    together = run(Adams(Plain(unforced(f), eta, SUM), x0, epochs, rtol=0, atol=1e-6))
    apart = run(Adams(Plain(unforced(f), eta, SUM), x0, epochs, [slice(0, 2), slice(2, None)], rtol=0, atol=1e-6))
    assert np.abs(apart.x[:2] - exact).max() < 3e-6
    assert np.abs(together.x[:2] - exact).max() > 1e-5


def test_a_state_carries_on_with_the_same_bits():
    f, x0, _ = MAPS["logistic"]

    def fresh() -> Adams:
        return Adams(Plain(unforced(f), 0.01, SUM), np.array(x0), 900, rtol=1e-7, atol=1e-7)

    whole, first = fresh(), fresh()
    for _ in range(9):
        whole.advance()
        first.advance()
    taken_up = fresh()
    taken_up.restore(*first.state())
    middle = int(first.span.mean())
    assert taken_up.at(middle)[0].tobytes() == whole.at(middle)[0].tobytes()
    run(whole)
    run(taken_up)
    for name in ARRAYS:
        assert getattr(whole, name).tobytes() == getattr(taken_up, name).tobytes(), name
    assert whole.gradients == taken_up.gradients


def test_an_overflow_on_the_way_is_retreated_from():
    """Where a trial step leads to no finite force, a shorter one is taken."""
    asked = []

    def law(x, epoch):
        asked.append(float(x[0]))
        if x[0] > 1.0:
            raise Diverged("not finite")
        return 0.0, 1 - x

    adams = run(Adams(Plain(law, 0.01, SUM), np.array([0.0]), 800, rtol=0, atol=1e-2))
    assert max(asked) > 1.0
    assert adams.x[0] == pytest.approx(1 - 0.99**800, abs=2e-2)


@pytest.mark.parametrize("rule", [SUM, INTEGRAL])
def test_a_step_whose_end_is_not_a_number_is_not_taken(rule):
    """The way from the force to the weights may fail although the force at the predicted point is finite."""

    class Brittle(Plain):
        failed = 0

        def carry(self, x, nodes, table, start, h):
            if h <= 3 or len(table) < 2:
                return super().carry(x, nodes, table, start, h)
            self.failed += 1
            return np.full_like(x, np.nan)

    law = Brittle(unforced(lambda x: -x), 0.01, rule)
    adams = run(Adams(law, np.ones(1), 60, rtol=0, atol=1e-3, max_order=2))
    assert law.failed > 0
    assert adams.rejected > 0
    assert adams.x[0] == pytest.approx(0.99**60 if rule is SUM else np.exp(-0.6), abs=2e-3)


@pytest.mark.parametrize("end", [0.3, 1.0, 1.7, 30.0])
def test_a_flow_ends_where_it_is_to_end(end):
    adams = run(Adams(Plain(unforced(lambda x: -x), 1.0, INTEGRAL), np.ones(1), end, rtol=0, atol=1e-8))
    assert adams.epoch == end
    assert adams.x[0] == pytest.approx(np.exp(-end), abs=1e-7)


@pytest.mark.parametrize("rule", [SUM, INTEGRAL])
def test_the_loss_is_known_where_weight_decay_moves_the_weights(rule):
    """Loss c x, force -c - d x: the loss follows the weights, without the penalty that decay has in the sum of both."""
    c, d, eta = 0.3, 2.0, 0.01
    law = Plain(lambda x, epoch: (c * float(x[0]), -c - d * x), eta, rule, decays=d)
    adams, worst, longest = Adams(law, np.array([5.0]), 2000, rtol=0, atol=1e-7), 0.0, 0.0
    while adams.epoch < adams.end:
        adams.advance()
        longest = max(longest, adams.span[1] - adams.span[0])
        for epoch in np.linspace(*adams.span, 7).round() if rule is SUM else np.linspace(*adams.span, 7):
            x, loss = adams.at(epoch)
            worst = max(worst, abs(loss - c * x[0]))
    assert longest > 5
    assert worst < 1e-5


def test_failures_say_what_to_do():
    with pytest.raises(BudgetExceeded, match=r"7 gradients are spent at epoch \d+ of 100000; raise max_gradients, loosen rtol"):
        run(Adams(Plain(unforced(np.cos), 0.1, SUM), np.array([0.0]), 100_000, max_gradients=7))

    def nowhere(x, epoch):
        if epoch > 10:
            raise Diverged(f"not finite at epoch {epoch:g}")
        return 0.0, -x

    with pytest.raises(Diverged, match="not finite at epoch 11"):
        run(Adams(Plain(nowhere, 0.01, SUM), np.ones(1), 100))
    with pytest.raises(RunFailed, match="no step from epoch 10"):
        run(Adams(Plain(nowhere, 0.01, INTEGRAL), np.ones(1), 100))
