"""gpytorch: an exact Gaussian process, trained and asked for predictions."""
import gpytorch
import torch
from common import numbers, train

x = torch.linspace(0, 1, 20)
y = torch.sin(6 * x) + 0.1 * numbers(20)


class Model(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, inputs):
        return gpytorch.distributions.MultivariateNormal(self.mean(inputs), self.kernel(inputs))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Model(likelihood)
model.train(), likelihood.train()
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
train("ExactGP", model, lambda: -objective(model(x), y), torch.optim.Adam(model.parameters(), lr=0.1), steps=5)
model.eval(), likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    found = likelihood(model(torch.linspace(0, 1, 7)))
print("mean", *found.mean.tolist())
print("variance", *found.variance.tolist())
