"""Trained networks as files for other programs: ONNX, and `torch.export`'s ``.pt2``."""

# B batch, C channels, T time, O outputs

from __future__ import annotations

import copy
import importlib.util
import io
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import ckcnn
from ckcnn.datamodules.preprocessing import Preprocessing as TrainedOn
from ckcnn.datamodules.transforms import STD_EPSILON
from ckcnn.files import check_output, replacing
from ckcnn.inference.constant_conv import DIRECT_LAGS, BlockConv, DirectConv, SampledKernel
from ckcnn.models.baselines import BaselineNet
from ckcnn.nn import CKConv, CKNet, CKTextNet
from ckcnn.nn.block import PointwiseConv
from ckcnn.nn.checks import check_counts, check_dt
from ckcnn.reference.convolution import ReferenceConv
from ckcnn.results.learned import network_of
from ckcnn.runs import checkpoints
from ckcnn.tasks import TASKS

ANY_LENGTH_LAGS = 1024  # up to here a plain convolution, which takes signals of any length, is affordable


@dataclass(frozen=True)
class Preprocessing:
    """What lies between a measured signal and the network.

    Attributes:
        mean: broadcastable over ``(B, C, T)``, or None.
        std: the same; both or neither.
        order: permutation of time ``(T,)``, or None.
        mask: whether a last channel says where something was observed; missing values are NaN.
    """

    mean: Tensor | None = None
    std: Tensor | None = None
    order: Tensor | None = None
    mask: bool = False

    @property
    def length(self) -> int | None:
        """The one length that it fits, or None for any."""
        if self.order is not None:
            return len(self.order)
        return self.mean.shape[-1] if self.mean is not None and self.mean.shape[-1] > 1 else None


@dataclass(frozen=True)
class Description:
    """What a user of an exported file has to know; it is stored in the file.

    Attributes:
        task: kind of problem.
        in_channels: channels of the input; 0 for tokens.
        length: of all signals, or None for any length.
        dt: sampling step in training samples.
        raw: whether the input is as it was measured; otherwise it is what the network was trained on.
        outputs: names of the outputs.
        ckcnn: version that wrote the file.
    """

    task: str
    in_channels: int
    length: int | None
    dt: float
    raw: bool
    outputs: tuple[str, ...]
    ckcnn: str = ckcnn.__version__


def preprocessing_of(checkpoint: Mapping[str, Any]) -> Preprocessing | None:
    """Read how signals were prepared for the network of a checkpoint, or return None if it does not say.

    Raises:
        ValueError: if it was done in a way that the graph cannot repeat.
    """
    if not isinstance(checkpoint.get("preprocessing"), Mapping):
        return None
    trained = TrainedOn.from_state(checkpoint["preprocessing"])
    if trained.missing == "counts" or (trained.missing == "mask" and trained.sporadic < trained.channels):
        raise ValueError(
            "the network was trained with counts of observations, or with channels that hold for a whole sequence, "
            "which an exported graph cannot make; use ckcnn.load(...).predict, or export a folder"
        )
    origin, unit = torch.tensor(trained.origin)[:, None], torch.tensor(trained.unit)[:, None]
    mean, std = trained.mean, trained.std
    if mean is None or std is None:
        plain = set(trained.origin) == {0.0} and set(trained.unit) == {1.0}
        mean, std = (None, None) if plain else (origin, unit - STD_EPSILON)  # the graph adds it again
    else:
        mean, std = origin + unit * mean, unit * (std + STD_EPSILON) - STD_EPSILON
    return Preprocessing(mean, std, trained.order, trained.missing == "mask")


def export_checkpoint(path: Path, output: Path, length: int | None = None, dt: float = 1.0) -> Description:
    """Export the network of a checkpoint.

    Args:
        path: the checkpoint.
        output: ends in ``.onnx`` or ``.pt2``.
        length: of all signals; by default any, or that of training where a plain convolution would take too long.
        dt: sampling step in training samples.

    Raises:
        ValueError: if it cannot be exported; the message says why.
    """
    content = checkpoints.load(path)
    net, task = _network(content, path)
    return export_network(net, output, task, length, dt, preprocessing_of(content))


def export_network(
    net: nn.Module,
    output: Path,
    task: str,
    length: int | None = None,
    dt: float = 1.0,
    preprocessing: Preprocessing | None = None,
) -> Description:
    """Export a network; see `export_checkpoint`.

    Args:
        net: a `CKNet`, a `CKTextNet` or the network of a baseline.
        output: ends in ``.onnx`` or ``.pt2``.
        task: kind of problem, which decides what the second output is.
        length: of all signals.
        dt: sampling step in training samples.
        preprocessing: what the graph does to a measured signal before the network sees it.
    """
    check_output(output, ".onnx", ".pt2")
    _check_packages(output)
    check_dt(dt)
    if length is not None:
        check_counts(length=length)
    if type(net) not in (CKNet, CKTextNet, BaselineNet):
        raise ValueError(f"a {type(net).__name__} cannot be exported; CKNet, CKTextNet, GRU, LSTM and TCN can")
    if isinstance(net, CKNet) and net.readout == "last_valid":
        raise ValueError('readout "last_valid" needs the length of each sequence, which no exported graph takes')
    length = _length(net, length, dt, preprocessing)
    graph = Graph(net, task, length, dt, preprocessing).eval()
    program = _trace(graph, length)
    described = Description(task, graph.in_channels, length, dt, preprocessing is not None, graph.outputs)
    data = _onnx(program, graph, described) if output.suffix == ".onnx" else _pt2(program, described)
    with replacing(output) as file:
        file.write(data)
    return described


class Graph(nn.Module):
    """What is exported: preparation, the network with constant kernels, and the probabilities.

    Args:
        net: the network; it is copied.
        task: kind of problem.
        length: of all signals, or None.
        dt: sampling step.
        preprocessing: what happens to a measured signal, or None.
    """

    mean: Tensor | None
    scale: Tensor | None
    order: Tensor | None

    def __init__(
        self, net: nn.Module, task: str, length: int | None, dt: float, preprocessing: Preprocessing | None
    ) -> None:
        super().__init__()
        self.task, self.tokens = TASKS[task], TASKS[task].from_tokens
        self.net = with_constant_kernels(net, length, dt)
        given = preprocessing or Preprocessing()
        self.mask = given.mask
        self.in_channels = 0 if self.tokens else _in_channels(net) - self.mask
        self.register_buffer("mean", given.mean)
        self.register_buffer("scale", None if given.std is None else given.std + STD_EPSILON)
        self.register_buffer("order", given.order)
        names = ("scores", "probabilities") if self.task.target == "class" else ("values",)
        self.outputs: tuple[str, ...] = names

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Maps ``(B, C, T)``, or tokens ``(B, T)``, to the scores and, for classes, their probabilities."""
        scores = self.net(x if self.tokens else self._prepare(x))
        if self.task.target != "class":
            return (scores,)
        return scores, scores.sigmoid() if self.task.one_logit else scores.softmax(1)

    def _prepare(self, x: Tensor) -> Tensor:
        """As `ckcnn.datamodules.pipeline` does: standardise, fill in zeros, permute, add the mask."""
        observed = x == x  # only NaN differs from itself
        if self.mean is not None and self.scale is not None:
            x = (x - self.mean) / self.scale
        if self.mask:
            x = torch.where(observed, x, torch.zeros_like(x))
            x = torch.cat([x, observed.any(1, keepdim=True).to(x)], dim=1)
        return x if self.order is None else x.index_select(-1, self.order)


def with_constant_kernels(net: nn.Module, length: int | None, dt: float) -> nn.Module:
    """Return a copy of a network whose continuous kernels are sampled once."""
    net = copy.deepcopy(net).eval().requires_grad_(False)
    for parent in list(net.modules()):
        for name, child in parent.named_children():
            if isinstance(child, CKConv):
                setattr(parent, name, _constant(child, length, dt))
            elif isinstance(child, PointwiseConv):  # its product asks for the size of the batch as a number
                plain = nn.Conv1d(child.in_channels, child.out_channels, 1)
                plain.load_state_dict(child.state_dict())
                setattr(parent, name, plain.requires_grad_(False))
    return net


@torch.no_grad()
def _constant(layer: CKConv, length: int | None, dt: float) -> DirectConv | BlockConv:
    if type(layer) not in (CKConv, ReferenceConv):
        raise ValueError(f"layers of the class {type(layer).__name__} cannot be exported; CKConv can")
    basis, weight, ahead = layer.sampled_parts(length or _memory(layer, dt), dt)
    kernel = SampledKernel(basis, weight, layer.bias, ahead)
    return DirectConv(kernel) if length is None or kernel.lags <= DIRECT_LAGS else BlockConv(kernel, length)


def _memory(layer: CKConv, dt: float) -> int:
    """A length at which a signal meets every lag of the kernel."""
    return math.ceil(layer.horizon / dt) + 1


def _length(net: nn.Module, length: int | None, dt: float, preprocessing: Preprocessing | None) -> int | None:
    """The length of all signals, or None if they may have any."""
    fitted = preprocessing.length if preprocessing else None
    if fitted is not None and length not in (None, fitted):
        raise ValueError(f"the network was trained on a fixed order or scale of {fitted} steps, got length {length}")
    length = length or fitted
    layers = [layer for layer in net.modules() if isinstance(layer, CKConv)]
    if not layers:
        if dt != 1:
            raise ValueError(f"GRU, LSTM and TCN know nothing of the sampling rate, leave dt at 1 (got {dt:g})")
        if length is None and any(isinstance(layer, nn.GRU | nn.LSTM) for layer in net.modules()):
            raise ValueError("a GRU or LSTM is exported for one length; give it with --length")
        return length
    one_length = isinstance(layers[0], ReferenceConv) or dt < 1  # smoothing depends on where the kernel ends
    samples = math.ceil(layers[0].horizon / dt)
    if length is None and (one_length or samples > ANY_LENGTH_LAGS):
        length = samples
    if isinstance(layers[0], ReferenceConv) and length and length % 2 and length >= layers[0].horizon:
        raise ValueError(
            f"the authors' convolution warps an odd number of samples ({length}) in time, which is not exported; "
            "import the weights for an even length, or train a CKCNN"
        )
    return length


def _in_channels(net: nn.Module) -> int:
    if isinstance(net, CKNet):
        return net.in_channels
    layer = next(part for part in net.modules() if isinstance(part, nn.Conv1d | nn.GRU | nn.LSTM))
    return layer.in_channels if isinstance(layer, nn.Conv1d) else layer.input_size


def _network(content: Mapping[str, Any], path: Path) -> tuple[nn.Module, str]:
    """The network of a checkpoint, and its task."""
    name, settings = str(content["model_class"]), content["hyper_parameters"]
    if name not in ("GRU", "LSTM", "TCN"):
        if "network" not in content and name not in ckcnn.__all__:
            raise ValueError(f"{path} holds a {name}, a class that ckcnn does not know, which cannot be exported")
        return network_of(content, path), str((content.get("network") or settings)["task"])
    model = getattr(ckcnn, name)(**settings)
    model.load_state_dict(content["state_dict"])
    return model.net.eval(), str(settings["task"])


def _check_packages(output: Path) -> None:
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if output.suffix == ".onnx" and missing:
        raise ValueError(f"ONNX needs {' and '.join(missing)}; pip install 'ckcnn[export]', or write a .pt2 file")


@torch.no_grad()
def _trace(graph: Graph, length: int | None) -> torch.export.ExportedProgram:
    time = length or 37  # any number that torch does not take for a special one
    example = torch.zeros(3, time, dtype=torch.int64) if graph.tokens else torch.zeros(3, graph.in_channels, time)
    sizes: dict[int, Any] = {0: torch.export.Dim("batch", min=1)}
    if length is None:
        sizes[example.dim() - 1] = torch.export.Dim("time", min=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about torch's own insides
        # Some conditions on the batch hold for every size, which torch cannot prove; it may look at them later.
        return torch.export.export(
            graph, (example,), dynamic_shapes=(sizes,), strict=False, prefer_deferred_runtime_asserts_over_guards=True
        )


def _pt2(program: torch.export.ExportedProgram, described: Description) -> bytes:
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={"ckcnn.json": json.dumps(asdict(described))})
    return buffer.getvalue()


def _onnx(program: torch.export.ExportedProgram, graph: Graph, described: Description) -> bytes:
    names = ["tokens" if graph.tokens else "signal"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.onnx.export(
            program, dynamo=True, verbose=False, input_names=names, output_names=list(graph.outputs)
        )
    assert exported is not None
    model = exported.model_proto
    for key, value in asdict(described).items():
        model.metadata_props.add(key=key, value=json.dumps(value))
    return bytes(model.SerializeToString())
