"""Names of `torch._dynamo.exc`: what PyTorch's compiler raises, and nothing here does."""


class TorchDynamoException(RuntimeError):
    """The base of the others."""


class Unsupported(TorchDynamoException):
    """For code that cannot be compiled; here it runs eagerly."""


class TensorifyScalarRestartAnalysis(TorchDynamoException):
    """For a number that turns out to be a tensor."""
