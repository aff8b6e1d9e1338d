"""`torch.export`: what a Module computes, as a graph that runs without it, in other processes too."""

from eagerjit.export.dims import Dim
from eagerjit.export.exporting import export
from eagerjit.export.files import load, save
from eagerjit.export.program import ExportedProgram
from eagerjit.export.signature import ExportGraphSignature

__all__ = ["Dim", "ExportGraphSignature", "ExportedProgram", "export", "load", "save"]
