"""`torch.fx.passes.utils`: what passes have in common."""
