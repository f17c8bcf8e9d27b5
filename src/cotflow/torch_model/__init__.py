"""The student as `torch.nn.Module`s, three ways that compute the same function, and its training where embeddings are learned."""

try:
    import torch  # noqa: F401
except ImportError:
    raise ImportError("cotflow.torch_model needs PyTorch, which is not installed: pip install 'cotflow[torch]'") from None

from .attention import ClosedAttention, TokenAttention
from .learned import student_loss_and_gradient, student_observables
from .logic import GLU, Matrices
from .student import Bundled, ClosedForm, Embedded, Student, token_tensor

__all__ = [
    "GLU",
    "Bundled",
    "ClosedAttention",
    "ClosedForm",
    "Embedded",
    "Matrices",
    "Student",
    "TokenAttention",
    "student_loss_and_gradient",
    "student_observables",
    "token_tensor",
]
