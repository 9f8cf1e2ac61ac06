"""Count what a step launches: operators, bytes, arithmetic and memory, on any device, also one without values (meta).

    with OperatorCounter() as counter:
        net(x).sum().backward()
    print(counter.launches)

The operators of `ckcnn` are opened, so what is counted is what their kernels run with the schedule of the device.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from ckcnn.nn.operators import KERNELS

_FREE = {"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "detach", "alias", "_unsafe_view"}
_FREE |= {"promote_types", "lift_fresh", "_reshape_alias", "set_", "resize_", "is_same_size", "_local_scalar_dense"}
_ONLY_WRITE = {"copy_", "fill_", "zero_"}  # what their target held before is not read


@dataclass
class Launch:
    """One operator that starts work on a device."""

    name: str
    bytes: int
    flops: float


@dataclass
class _Memory:
    """The bytes of all live storages that were seen, and the most there ever were."""

    live: dict[int, tuple[StorageWeakRef, int]] = field(default_factory=dict)
    peak: int = 0

    def see(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            self.live[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.live = {key: (ref, size) for key, (ref, size) in self.live.items() if not ref.expired()}
        self.peak = max(self.peak, sum(size for _, size in self.live.values()))


class OperatorCounter(TorchDispatchMode):
    """Records every operator that launches work; views and allocations do not.

    Args:
        memory: whether to follow the memory of all tensors as well, which takes longer.
    """

    def __init__(self, memory: bool = False) -> None:
        super().__init__()
        self.list: list[Launch] = []
        self.memory = _Memory() if memory else None

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in KERNELS:
            with self:
                return KERNELS[func](*args, **kwargs)
        if func.namespace == "prim":  # a question, such as where a tensor is
            return func(*args, **kwargs)
        with self:
            result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:  # it was made of others, which have been counted
            return result
        result = func(*args, **kwargs)
        inputs, outputs = _tensors((args, kwargs)), _tensors(result)
        name = func.overloadpacket.__name__
        if outputs and not func.is_view and name not in _FREE:
            written = [] if _is_out(func) or name in _ONLY_WRITE else outputs  # it is among the inputs already
            moved = sum(tensor.nbytes for tensor in [*inputs, *written])
            self.list.append(Launch(name, moved, flops(name, _tensors(args), outputs)))
        if self.memory is not None:
            self.memory.see([*inputs, *outputs])
        return result

    @property
    def launches(self) -> int:
        """The number of operators that start work."""
        return len(self.list)

    @property
    def bytes(self) -> int:
        """What all operators read and write, as if no cache kept anything between two of them."""
        return sum(launch.bytes for launch in self.list)

    @property
    def flops(self) -> float:
        """Floating-point operations of products, transforms and elementwise functions."""
        return sum(launch.flops for launch in self.list)

    @property
    def names(self) -> Counter[str]:
        """How often each operator was launched."""
        return Counter(launch.name for launch in self.list)


def flops(name: str, inputs: list[Tensor], outputs: list[Tensor]) -> float:
    """Real floating-point operations of one operator: 2 mnk of a product, 2.5 n log2 n of a real transform.

    Args:
        name: of the operator.
        inputs: its positional tensors, of which the last two are the factors of a product.
        outputs: its results.
    """
    if name in ("mm", "bmm", "addmm", "addmm_", "baddbmm", "mv", "addmv"):
        inner = inputs[-2].shape[-1]
        return outputs[0].numel() * inner * (8 if outputs[0].is_complex() else 2)
    if name in ("_fft_r2c", "_fft_c2r"):
        real = inputs[0] if name == "_fft_r2c" else outputs[0]
        return 2.5 * real.numel() * math.log2(max(2, real.shape[-1]))
    return max(tensor.numel() * (2 if tensor.is_complex() else 1) for tensor in outputs)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_iter(tree) if isinstance(leaf, Tensor)]


def _is_out(func: OpOverload) -> bool:
    return any(argument.is_out for argument in func._schema.arguments)
