"""Names of `torch.fx.experimental`."""
