"""Using what was trained: load a model, and ask it about raw measurements."""

from ckcnn.inference.loading import load
from ckcnn.inference.model import TrainedModel

__all__ = ["TrainedModel", "load"]
