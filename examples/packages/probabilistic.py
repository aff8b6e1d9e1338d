"""Pyro: densities of a model, its likeliest parameters by variational inference, and distributions of its own."""

import pyro
import pyro.distributions as dist
import torch
from common import numbers
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, init_to_value
from pyro.infer.mcmc.util import initialize_model

data = 1.5 + 0.5 * numbers(30)


def model(observed):
    loc = pyro.sample("loc", dist.Normal(0.0, 3.0))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", len(observed)):
        pyro.sample("observed", dist.Normal(loc, scale), obs=observed)


given = {"loc": torch.tensor(1.2), "scale": torch.tensor(0.7)}
trace = pyro.poutine.trace(pyro.condition(model, data=given)).get_trace(data)
print("log_prob", trace.log_prob_sum().item())
guide = AutoDelta(model, init_loc_fn=init_to_value(values=given))
inference = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
print("losses", *[inference.step(data) for _ in range(20)])
print("median", *[v.item() for v in guide.median().values()])
_, potential, _, _ = initialize_model(model, (data,), initial_params=given)
print("potential", potential(given).item())
correlations = torch.linalg.cholesky(torch.tensor([[1.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.0]]))
flow = dist.TransformedDistribution(dist.Normal(torch.zeros(3), 1.0).to_event(1), [dist.transforms.SoftplusTransform()])
mixture = dist.MixtureSameFamily(dist.Categorical(torch.ones(2)), dist.Normal(torch.tensor([0.0, 1.0]), 1.0))
for name, distribution, value in (
    ("flow", flow, torch.tensor([0.3, 1.0, 2.0])), ("LKJ", dist.LKJCholesky(3, 2.0), correlations),
    ("mixture", mixture, torch.tensor(0.5)), ("beta-binomial", dist.BetaBinomial(2.0, 3.0, 10), torch.tensor(4.0)),
    ("gamma-Poisson", dist.GammaPoisson(2.0, 3.0), torch.tensor(4.0)),
):  # fmt: skip
    print(name, distribution.log_prob(value).item())
