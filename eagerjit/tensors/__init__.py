"""Tensors: the class, how they are made, converted, moved and printed."""
