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
from ckcnn.checks import check_counts
from ckcnn.checks.memory import check_room
from ckcnn.datamodules.features import INT16, frames
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.files import check_output, replacing
from ckcnn.inference.constant_conv import (
    DIRECT_LAGS,
    BlockConv,
    DepthwiseBlockConv,
    DepthwiseConv,
    DirectConv,
    SampledKernel,
)
from ckcnn.inference.intake import check_step, raw_channels
from ckcnn.inference.model import TrainedModel
from ckcnn.inference.preparation import Preparation
from ckcnn.inference.real_cepstra import RealCepstra
from ckcnn.models.baselines import BaselineNet
from ckcnn.models.networks import convolutions
from ckcnn.nn import CKConv, CKNet, CKTextNet, DepthwiseCKConv
from ckcnn.nn.block import PointwiseConv
from ckcnn.nn.forecast import FromLastValue
from ckcnn.reference.convolution import ReferenceConv
from ckcnn.tasks import TASKS


@dataclass(frozen=True)
class Description:
    """What a user of an exported file has to know; it is stored in the file.

    Attributes:
        task: kind of problem.
        in_channels: channels of the input; 0 for tokens.
        length: of all signals, or None for any length.
        dt: sampling step, in steps of the training sequences.
        raw: whether the input is as it was measured; otherwise it is what the network was trained on.
        inputs: names of the inputs.
        outputs: names of the outputs.
        channels: names of the channels, if they are known.
        classes: names of the classes (of text, the characters), if they are known.
        rate: samples per second of sound, given in [-1, 1]; None for other signals.
        ckcnn: version that wrote the file.
    """

    task: str
    in_channels: int
    length: int | None
    dt: float
    raw: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    channels: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    rate: int | None = None
    ckcnn: str = ckcnn.__version__


def export_model(model: TrainedModel, output: Path, length: int | None = None, dt: float = 1.0) -> Description:
    """Export a trained model, which takes raw values; see `export_network`.

    Raises:
        ValueError: if it cannot be exported; the message says why.
    """
    sizes = [_kernels(layer) for layer in convolutions(model.net).values()]
    advice = "give a smaller --length"
    check_room(f"a graph for signals of {length} samples", 4 * (length or 0) * max(sizes, default=1), advice)
    name = next(name for name, task in TASKS.items() if task is model.task)
    return export_network(model.net, output, name, length, dt, model.trained)


def _kernels(layer: CKConv | DepthwiseCKConv) -> int:
    """How many kernels a layer has."""
    return layer.channels if isinstance(layer, DepthwiseCKConv) else layer.in_channels * layer.out_channels


def export_network(
    net: nn.Module,
    output: Path,
    task: str,
    length: int | None = None,
    dt: float = 1.0,
    trained: Preprocessing | None = None,
) -> Description:
    """Export a network.

    Args:
        net: a `CKNet`, a `CKTextNet` or the network of a baseline.
        output: ends in ``.onnx`` or ``.pt2``.
        task: kind of problem, which decides what the second output is.
        length: of all signals; by default any, or that of training where something depends on the length.
        dt: sampling step, in steps of the training sequences.
        trained: what training did to raw sequences, which becomes part of the graph; without it the graph takes what
            the network takes.

    Raises:
        ValueError: if it cannot be exported; the message says why.
    """
    check_output(output, ".onnx", ".pt2")
    _check_packages(output)
    check_step(dt)
    if length is not None:
        check_counts(length=length)
    if type(net.net if isinstance(net, FromLastValue) else net) not in (CKNet, CKTextNet, BaselineNet):
        raise ValueError(f"a {type(net).__name__} cannot be exported; CKNet, CKTextNet, GRU, LSTM and TCN can")
    if trained is not None:
        _check_exportable(trained, dt)
    length = _length(net, length, dt, trained)
    graph = Graph(net, task, length, dt, trained).eval()
    program = _trace(graph, length)
    described = graph.description()
    data = _onnx(program, described) if output.suffix == ".onnx" else _pt2(program, described)
    with replacing(output) as file:
        file.write(data)
    return described


class Graph(nn.Module):
    """What is exported: preparation, the network with constant kernels, and the probabilities.

    Args:
        net: the network; it is copied.
        task: kind of problem.
        length: of all signals, or None.
        dt: sampling step, in steps of the training sequences.
        trained: what training did to raw sequences, or None.
    """

    def __init__(self, net: nn.Module, task: str, length: int | None, dt: float, trained: Preprocessing | None) -> None:
        super().__init__()
        self.task, self.tokens = task, TASKS[task].from_tokens
        self.length, self.dt, self.trained = length, dt, None if self.tokens else trained
        self.classes = () if trained is None else trained.classes or tuple(trained.vocabulary)
        steps, step = length, dt
        if self.trained is not None:
            settings = self.trained.features
            self.features = None if settings is None else RealCepstra(settings, self.trained.rate)
            self.prepare = Preparation.of(self.trained, _frames(length, settings), dt)
            steps, step = _steps(self.prepare), self.prepare.dt
        self.net = with_constant_kernels(net, steps, step)
        self.in_channels = 0 if self.tokens else raw_channels(self.trained) if self.trained else _in_channels(net)
        needs_lengths = self.trained.varying if self.trained else getattr(net, "readout", None) == "last_valid"
        self.inputs = ("tokens" if self.tokens else "signal", *(["lengths"] if needs_lengths else []))
        self.outputs = ("scores", "probabilities") if TASKS[task].target == "class" else ("values",)

    @property
    def shortest(self) -> int:
        """The least number of raw steps of a signal of any length."""
        if self.trained is None:
            return 1
        return self.features.shortest if self.features is not None else self.prepare.pipeline.stride + 1

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
        """Map ``(B, C, T)``, or tokens ``(B, T)``, to the scores and, for classes, their probabilities."""
        if self.trained is not None:
            x, lengths = self._prepared(x, lengths, self.trained)
        scores = self.net(x) if lengths is None else self.net(x, lengths=lengths)
        task = TASKS[self.task]
        if task.target != "class":
            scale = None if self.trained is None else self.trained.target_statistics
            return (scores if scale is None else scale.undo(scores),)
        return scores, scores.sigmoid() if task.one_logit or task.many_labels else scores.softmax(1)

    def _prepared(self, x: Tensor, lengths: Tensor | None, trained: Preprocessing) -> tuple[Tensor, Tensor | None]:
        if self.features is not None:
            x = self.features(x[:, 0])
        elif trained.rate is not None:
            x = x * INT16  # as training stored it
        steps = torch.zeros(x.shape[0], x.shape[-1])  # where the outputs are; the caller knows
        batch = self.prepare(x, steps, lengths)
        return batch.x, batch.lengths

    def description(self) -> Description:
        """What a user has to know."""
        trained = self.trained
        return Description(
            task=self.task,
            in_channels=self.in_channels,
            length=self.length,
            dt=self.dt,
            raw=trained is not None,
            inputs=self.inputs,
            outputs=self.outputs,
            channels=trained.channel_names if trained else (),
            classes=self.classes,
            rate=trained.rate if trained else None,
        )


def with_constant_kernels(net: nn.Module, length: int | None, dt: float) -> nn.Module:
    """Return a copy of a network whose continuous kernels are sampled once."""
    net = copy.deepcopy(net).eval().requires_grad_(False)
    for parent in list(net.modules()):
        for name, child in parent.named_children():
            if isinstance(child, CKConv | DepthwiseCKConv):
                setattr(parent, name, _constant(child, length, dt))
            elif isinstance(child, PointwiseConv):  # its product asks for the size of the batch as a number
                plain = nn.Conv1d(child.in_channels, child.out_channels, 1)
                plain.load_state_dict(child.state_dict())
                setattr(parent, name, plain.requires_grad_(False))
    return net


@torch.no_grad()
def _constant(layer: CKConv | DepthwiseCKConv, length: int | None, dt: float) -> nn.Module:
    if isinstance(layer, DepthwiseCKConv):
        kernel, ahead = layer.sampled_kernel(length or _memory(layer, dt), dt)
        if kernel.shape[1] <= DIRECT_LAGS:
            return DepthwiseConv(kernel, layer.bias, ahead)
        return DepthwiseBlockConv(kernel, layer.bias, ahead, length)
    if type(layer) not in (CKConv, ReferenceConv):
        raise ValueError(f"layers of the class {type(layer).__name__} cannot be exported; CKConv can")
    basis, weight, ahead = layer.sampled_parts(length or _memory(layer, dt), dt)
    parts = SampledKernel(basis, weight, layer.bias, ahead)
    return DirectConv(parts) if parts.lags <= DIRECT_LAGS else BlockConv(parts, length)


def _memory(layer: CKConv | DepthwiseCKConv, dt: float) -> int:
    """A length at which a signal meets every lag of the kernel."""
    return math.ceil(layer.horizon / dt) + 1


def _length(net: nn.Module, length: int | None, dt: float, trained: Preprocessing | None) -> int | None:
    """The length of all signals, or None if they may have any."""
    training = None if trained is None or trained.vocabulary else _training_length(trained, dt)
    if length is None and trained is not None and _one_length(trained):
        length = training
    layers = [layer for layer in net.modules() if isinstance(layer, CKConv | DepthwiseCKConv)]
    if not layers:
        if dt != 1:
            raise ValueError(f"GRU, LSTM and TCN ignore the sampling rate, leave dt at 1 (got {dt:g})")
        if length is None and any(isinstance(layer, nn.GRU | nn.LSTM) for layer in net.modules()):
            raise ValueError("a GRU or LSTM is exported for one length; give it with --length")
        return length
    step = dt if training is None or trained is None else Preparation.of(trained, None, dt).dt
    smoothed = isinstance(layers[0], ReferenceConv) or step < 1  # smoothing depends on where the kernel ends
    if length is None and smoothed:
        length = training or math.ceil(layers[0].horizon / step)
    if isinstance(layers[0], ReferenceConv) and length and length % 2 and length >= layers[0].horizon:
        raise ValueError(
            f"the authors' convolution warps an odd number of samples ({length}) in time, which is not exported; "
            "import the weights for an even length, or train a CKCNN"
        )
    return length


def _check_exportable(trained: Preprocessing, dt: float) -> None:
    """Refuse what no graph can be given."""
    if trained.stamped or trained.missing == "times":
        raise ValueError(
            "the model was trained with time stamps, which an exported graph does not take; "
            "use ckcnn.load(...).predict, or export a folder"
        )
    if trained.features is not None and dt != 1:
        raise ValueError(
            f"the model computes cepstral coefficients of sound at {trained.rate} Hz; resample it instead of giving dt"
        )


def _one_length(trained: Preprocessing) -> bool:
    """Whether something in the preparation depends on the length."""
    by_step = trained.mean is not None and trained.mean.shape[-1] > 1
    return by_step or trained.order is not None or trained.varying or (trained.keep == "last" and trained.train_dt > 1)


def _training_length(trained: Preprocessing, dt: float) -> int:
    """Raw steps of a training sequence at a sampling step."""
    if trained.features is not None:
        return (trained.length - 1) * int(trained.features["step"])
    return math.ceil(trained.length / dt)


def _frames(length: int | None, features: Mapping[str, Any] | None) -> int | None:
    """Steps after the features are computed."""
    return length if length is None or features is None else int(frames(torch.tensor(length), features))


def _steps(prepare: Preparation) -> int | None:
    """Steps that the network sees, or None for any number."""
    pipeline = prepare.pipeline
    return None if prepare.width is None else math.ceil((prepare.width - pipeline.first) / pipeline.stride)


def _in_channels(net: nn.Module) -> int:
    if isinstance(net, CKNet):
        return net.in_channels
    layer = next(part for part in net.modules() if isinstance(part, nn.Conv1d | nn.GRU | nn.LSTM))
    return layer.in_channels if isinstance(layer, nn.Conv1d) else layer.input_size


def _check_packages(output: Path) -> None:
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if output.suffix == ".onnx" and missing:
        raise ValueError(f"ONNX needs {' and '.join(missing)}; pip install 'ckcnn[export]', or write a .pt2 file")


@torch.no_grad()
def _trace(graph: Graph, length: int | None) -> torch.export.ExportedProgram:
    time = length or max(3701, 2 * graph.shortest + 1)  # any number that torch does not take for a special one
    signal = torch.zeros(3, time, dtype=torch.int64) if graph.tokens else torch.zeros(3, graph.in_channels, time)
    batch, sizes = torch.export.Dim("batch", min=1), dict[int, Any]()
    if length is None:
        sizes[signal.dim() - 1] = torch.export.Dim("time", min=graph.shortest)
    examples, dynamic = [signal], [{0: batch, **sizes}]
    if "lengths" in graph.inputs:
        examples, dynamic = [signal, torch.full((3,), time)], [*dynamic, {0: batch}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about torch's own insides
        # Some conditions on the batch hold for every size, which torch cannot prove; it may look at them later.
        return torch.export.export(
            graph,
            tuple(examples),
            dynamic_shapes=tuple(dynamic),
            strict=False,
            prefer_deferred_runtime_asserts_over_guards=True,
        )


def _pt2(program: torch.export.ExportedProgram, described: Description) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, buffer, extra_files={"ckcnn.json": json.dumps(asdict(described))})
    return buffer.getvalue()


def _onnx(program: torch.export.ExportedProgram, described: Description) -> bytes:
    names, answers = list(described.inputs), list(described.outputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.onnx.export(program, dynamo=True, verbose=False, input_names=names, output_names=answers)
    assert exported is not None
    model = exported.model_proto
    for key, value in asdict(described).items():
        model.metadata_props.add(key=key, value=json.dumps(value))
    return bytes(model.SerializeToString())
