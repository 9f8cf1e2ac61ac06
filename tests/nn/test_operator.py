"""The convolution is an operator that compilers, exporters and function transforms understand."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from ckcnn.nn import CKBlock, CKConv, CKNet, KernelFactory, MLPKernel, Siren, fft_conv
from ckcnn.nn.functional import basis_conv

KERNELS: dict[str, KernelFactory] = {
    "siren": partial(Siren, omega_0=5.0),
    "mlp": MLPKernel,
}


def make_net(kernel: str = "siren") -> CKNet:
    return CKNet(2, 4, 3, partial(CKConv, horizon=20, kernel=KERNELS[kernel])).double()


def parts() -> list[Tensor]:
    """Signal, basis, read-out and bias."""
    shapes = [(2, 3, 6), (4, 5), (5, 3, 4), (5,)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # dynamo looks at it
@pytest.mark.parametrize("kernel", ["siren", "mlp"])
def test_one_graph_with_all_gradients(kernel: str) -> None:
    torch._dynamo.reset()
    net = CKBlock(2, 4, partial(CKConv, horizon=20, kernel=KERNELS[kernel])).double()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch, length in ((3, 20), (4, 33)):
        x = torch.randn(batch, 2, length, dtype=torch.float64)
        results = []
        for run in (compiled, net):
            y = run(x)
            results.append([y, *torch.autograd.grad(y.sum(), list(net.parameters()))])
        for ours, expected in zip(*results, strict=True):
            assert (ours - expected).abs().max() < 1e-13 * max(1.0, expected.abs().max().item())


def test_exports_with_dynamic_batch_and_length() -> None:
    net = make_net().eval()
    batch, time = torch.export.Dim("batch", min=2, max=512), torch.export.Dim("time", min=2, max=4096)
    example = torch.randn(3, 2, 20, dtype=torch.float64)
    exported = torch.export.export(net, (example,), dynamic_shapes={"x": {0: batch, 2: time}})
    assert sum(node.target is torch.ops.ckcnn.conv.default for node in exported.graph.nodes) == 4
    for length in (7, 20, 45):
        x = torch.randn(5, 2, length, dtype=torch.float64)
        assert (exported.module()(x) - net(x)).abs().max() < 1e-12


def test_operator_is_registered_as_pytorch_asks() -> None:
    inputs = parts()
    torch.library.opcheck(torch.ops.ckcnn.conv.default, (*inputs, 2, None, True))
    y, *kept = torch.ops.ckcnn.conv(*inputs, 0, None, False)
    grad = torch.randn_like(y).requires_grad_()
    arguments = (grad, *inputs[:3], *kept, 0, None, [True, True, True, True])
    torch.library.opcheck(torch.ops.ckcnn.conv_backward.default, arguments)


@pytest.mark.parametrize("advance", [0, 2])
@pytest.mark.parametrize("keep", [True, False])
def test_gradients_are_right_in_a_compiled_graph(advance: int, keep: bool) -> None:
    """They were not: a transform of a lazily conjugate spectrum came out reversed in time."""
    x, basis, weight, bias = parts()
    y, *kept = torch.ops.ckcnn.conv(x, basis, weight, bias, advance, None, keep)
    arguments = [tensor.detach() for tensor in (torch.randn_like(y), x, basis, weight, *kept)]

    def backward(*arguments: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = torch.ops.ckcnn.conv_backward(*arguments, advance, None, [True] * 4)
        return found

    torch._dynamo.reset()
    compiled = torch.compile(backward, fullgraph=True, backend="aot_eager")(*arguments)
    for ours, expected in zip(compiled, backward(*arguments), strict=True):
        assert (ours - expected).abs().max() < 1e-12


@pytest.mark.parametrize("advance", [0, 1])
def test_second_derivatives(advance: int) -> None:
    x, basis, weight, bias = parts()
    assert torch.autograd.gradgradcheck(lambda *a: basis_conv(*a, advance=advance), (x, basis, weight, bias))
    kernel = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda *a: fft_conv(*a, advance=advance), (x, kernel))


def test_derivatives_of_a_layer() -> None:
    layer = CKConv(2, 3, 6, kernel=partial(Siren, omega_0=2.0, hidden=4)).double()
    names, parameters = zip(*layer.named_parameters(), strict=True)

    def run(x: Tensor, *values: Tensor) -> Tensor:
        result: Tensor = torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,))
        return result

    x = torch.randn(2, 2, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (x, *parameters))
    assert torch.autograd.gradgradcheck(run, (x, *parameters))


def test_gradients_per_sample() -> None:
    net, x, y = make_net(), torch.randn(3, 2, 20, dtype=torch.float64), torch.tensor([0, 1, 2])
    parameters = dict(net.named_parameters())

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        scores = torch.func.functional_call(net, parameters, (x[None],))
        return torch.nn.functional.cross_entropy(scores, y[None])

    each = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(parameters, x, y)
    torch.nn.functional.cross_entropy(net(x), y, reduction="sum").backward()
    for name, parameter in parameters.items():
        assert parameter.grad is not None
        assert (each[name].sum(0) - parameter.grad).abs().max() < 1e-12


def test_changing_what_backward_needs_is_noticed() -> None:
    x, basis, weight, bias = (tensor.detach() for tensor in parts())
    basis.requires_grad_()
    y = basis_conv(x, basis, weight, bias)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
