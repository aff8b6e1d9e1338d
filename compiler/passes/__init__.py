"""Graph passes: every one a function from a Graph to a Graph that computes the same, bit for bit."""

from eagerjit.compiler.passes.pipeline import PIPELINE, Observer, run_pipeline

__all__ = ["PIPELINE", "Observer", "run_pipeline"]
