"""TensorBoard is no part of eagerjit: importing this says so."""

raise ModuleNotFoundError(
    "eagerjit has no torch.utils.tensorboard: it writes no TensorBoard event files. The package tensorboardX has a "
    "SummaryWriter of its own that takes numbers and ndarrays.",
    name="eagerjit.utils.tensorboard",
)
