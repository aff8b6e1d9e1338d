"""Distributions and transforms of values: made in the function, given, and found outside, where they change."""

from __future__ import annotations

import eagerjit as torch
from eagerjit import distributions, nn
from eagerjit.distributions import transforms
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


@case(versions=1)
def parameters_replaced_after_they_were_read(jit):
    normal = distributions.Normal(torch.zeros(3), ones(3))

    @jit
    def f(x):
        result = normal.log_prob(x)
        normal.loc = normal.loc * 0.5 + x
        normal.scale = x.exp()
        return result

    for i in range(4):
        yield f(ones(3) * 0.3 * i), normal.loc, normal.scale


@case(versions=5)
def parameters_replaced_outside(jit):
    independent = distributions.Independent(distributions.Normal(torch.zeros(3), ones(3)), 1)
    moved = distributions.TransformedDistribution(
        distributions.Normal(torch.zeros(3), 1.0), [transforms.AffineTransform(0.5, 2.0)]
    )
    mixture = distributions.MixtureSameFamily(
        distributions.Categorical(logits=torch.zeros(3)), distributions.Normal(torch.arange(3.0), ones(3))
    )
    f = jit(lambda x: (independent.log_prob(x), moved.log_prob(x), mixture.log_prob(x), moved.rsample()))
    for i in range(3):
        yield f(ones(3) * 0.1 * i)
    independent.base_dist.loc = ones(3)
    yield f(ones(3))
    moved.transforms[0].loc = 1.5
    yield f(ones(3))
    moved.transforms.append(transforms.AffineTransform(0.0, -1.0))
    yield f(ones(3))
    mixture.component_distribution.scale = ones(3) * 3
    yield f(ones(3))
    independent.base_dist.loc.add_(1.0)
    yield f(ones(3))


@case(versions=2)
def made_of_a_network(jit):
    policy, deviation = nn.Linear(3, 2), nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.Adam([*policy.parameters(), deviation])

    @jit
    def step(x, actions):
        chosen = distributions.Independent(distributions.Normal(policy(x), deviation.exp()), 1)
        loss = -chosen.log_prob(actions).mean() - 0.01 * chosen.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, chosen.rsample().detach(), chosen.mean.detach()

    for i in range(3):
        yield step(ones(2 + i, 3) * i, ones(2 + i, 2)), list(policy.parameters()), deviation


@case(versions=1)
def whose_values_are_kept_inside(jit):
    @jit
    def f(x):
        exponential = transforms.ExpTransform(cache_size=1)
        y = exponential(x)
        return exponential.inv(y), y

    for i in range(3):
        yield f(ones(3) * i)


@case(outcome=FELL_BACK)
def whose_values_are_kept_outside(jit):
    exponential = transforms.ExpTransform(cache_size=1)

    @jit
    def f(x):
        y = exponential(x)
        return exponential.inv(y), y

    for i in range(3):
        x, y = f(ones(3) * i / 3)
        yield x, y, exponential.inv(y) is x


@case(versions=3)
def divergences_from_priors_that_change(jit):
    prior, wide = distributions.Normal(0.0, 1.0), distributions.Normal(torch.zeros(2), torch.ones(2) * 2)

    @jit
    def f(x):
        whole = distributions.Independent(wide, 1)
        posterior = distributions.Normal(x, 1.0)
        return (
            distributions.kl_divergence(posterior, prior),
            distributions.kl_divergence(distributions.Independent(posterior, 1), whole),
            distributions.kl_divergence(distributions.Uniform(x, x + 1), wide),
        )

    for change in (
        lambda: None,
        lambda: setattr(prior, "loc", torch.tensor(3.0)),
        lambda: setattr(prior, "scale", torch.ones(2)),
        lambda: wide.loc.add_(1),
        lambda: setattr(wide, "scale", torch.ones(2)),
    ):
        change()
        for _ in range(2):
            yield f(torch.ones(2))


@case(versions=2)
def a_divergence_is_registered_later(jit):
    class Own(distributions.Normal):
        pass

    prior = Own(torch.zeros(2), torch.ones(2))
    f = jit(lambda x: distributions.kl_divergence(prior, prior) + x)
    yield f(torch.ones(2))
    distributions.register_kl(Own, Own)(lambda p, q: p.loc - 5)
    yield f(torch.ones(2))


@case(versions=4)
def parts_of_transforms_replaced(jit):
    shifted = transforms.AffineTransform(1.0, 2.0)
    joined = transforms.ComposeTransform([shifted, transforms.SigmoidTransform()])

    @jit
    def f(x):
        return joined(x), joined.inv(x), joined.log_abs_det_jacobian(x, x)

    for change in (
        lambda: None,
        lambda: setattr(joined, "parts", [shifted]),
        lambda: joined.parts.append(transforms.TanhTransform()),
        lambda: setattr(shifted, "loc", 0.1),
    ):
        change()
        for _ in range(2):
            yield f(torch.full((2,), 0.3)), joined.inv(torch.ones(2) * 0.5)


@case(versions=1)
def observations_that_are_refused(jit):
    @jit
    def f(logits, seen):
        return distributions.Categorical(logits=logits).log_prob(seen)

    for seen in ([0, 1, 3], [0, 1, 2], [0, 1, 3], [2, 1, 0], [-1, 0, 0], [1, 1, 1]):
        yield attempt(f, torch.arange(9.0).reshape(3, 3), torch.tensor(seen))


@case(versions=2)
def checks_that_tell_the_values(jit):
    limits = [1.0]

    @jit
    def f(x):
        if x.max() > limits[0]:
            raise ValueError(f"too large: {x.max()} of {x}")
        return x * 2

    for scale in (2.0, 0.5, 2.0, 0.25, 3.0, 0.1):
        yield attempt(f, scale * ones(3))
    limits[0] = 4.0
    yield f(3 * ones(3))


@case(versions=1)
def checks_that_tell_the_values_of_arrays(jit):
    @jit
    def f(x):
        if x.max() > 1:
            raise ValueError(f"too large: {x.numpy()}, {x.detach().numpy()!r}")
        return x * 2

    for scale in (2.0, 0.5, 2.0, 0.25, 3.0, 0.1):
        yield attempt(f, scale * ones(3))


@case
def what_is_kept_once_it_was_read(jit):
    class Squared:
        def __init__(self, base):
            self.base = base

        @distributions.utils.lazy_property
        def value(self):
            return self.base * self.base

    kept, normal = Squared(torch.arange(3.0)), distributions.MultivariateNormal(torch.zeros(3), torch.eye(3) * 2)
    f = jit(lambda x: x + kept.value + normal.scale_tril.sum(0))
    for i in range(3):
        yield f(ones(3) * i), vars(kept).get("value"), vars(normal).get("scale_tril")
    kept.base, normal.scale_tril = torch.ones(3), torch.eye(3)
    yield f(ones(3)), kept.value
    del kept.value
    yield f(ones(3)), kept.value


@case(versions=3)
def a_transform_that_is_a_module(jit):
    class Stretched(transforms.Transform, nn.Module):
        domain = codomain = distributions.constraints.real
        bijective = True

        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor([2.0, 4.0, 0.5]))

        __hash__ = nn.Module.__hash__

        def _inverse(self, y):
            return y / self.scale if self.training else y * self.scale

        def log_abs_det_jacobian(self, x, y):
            return self.scale.log()

    stretched = Stretched()
    whole = distributions.TransformedDistribution(distributions.Normal(torch.zeros(3), ones(3)), [stretched])
    f = jit(lambda y: whole.log_prob(y))
    yield f(ones(3))
    with torch.no_grad():
        stretched.scale.mul_(3.0)
    yield f(ones(3))
    stretched.eval()
    yield f(ones(3))
    stretched.scale = nn.Parameter(ones(3) * 7)
    yield f(ones(3))
    loss = f(ones(3)).sum()
    yield torch.autograd.grad(loss, [stretched.scale])


@case(versions=2)
def a_subclass_expanded_inside(jit):
    class Mine(distributions.Weibull):
        def __init__(self, scale, twice=2.0):
            super().__init__(scale, scale * twice)

        def expand(self, batch_shape, _instance=None):
            return super().expand(batch_shape, self._get_checked_instance(Mine, _instance))

        def log_prob(self, value):
            return super().log_prob(value) * factor[0]

    factor = [1.0]
    f = jit(lambda x: Mine(x.exp()).expand((2, 3)).log_prob(x.exp() + 1.0))
    for i in range(3):
        yield f(ones(3) * i)
    factor[0] = 2.0
    yield f(ones(3))
