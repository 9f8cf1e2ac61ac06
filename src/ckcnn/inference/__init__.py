"""Using what was trained: load, predict, stream, generate, export."""

from ckcnn.inference.loading import load
from ckcnn.inference.model import TrainedModel

__all__ = ["TrainedModel", "load"]
