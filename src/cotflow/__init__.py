"""cotflow: how attention and logic learn together when a transformer learns to track a state."""

from .config import Config
from .params import Params
from .task import Task

__version__ = "0.1.0"
__all__ = ["Config", "Params", "Task"]
