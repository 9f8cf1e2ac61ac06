"""The FFT convolution equals the direct sum, forward and backward, for every kind of length."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ckcnn.nn import FFTConv, fft_conv
from ckcnn.nn.functional import basis_conv
from ckcnn.nn.plan import fft_length
from ckcnn.nn.schedule import ACCELERATOR, CPU, Schedule
from tests.nn import direct

# samples, lags, lags ahead: one, two, three, primes, odd, even, kernel shorter and longer than the signal, centred
CASES = [(1, 1, 0), (2, 2, 0), (3, 3, 0), (7, 7, 0), (15, 15, 0), (16, 16, 0), (31, 31, 0), (40, 12, 0), (12, 40, 0)]
CASES += [(13, 7, 3), (12, 8, 4), (5, 21, 10), (1, 5, 2), (6, 3, 2)]


def parts(length: int, lags: int, dtype: torch.dtype) -> list[Tensor]:
    """Signal, bias, basis and read-out."""
    shapes = [(2, 3, length), (5,), (4, lags), (5, 3, 4)]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def gradients(y: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    grad = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y, *torch.autograd.grad(y, inputs, grad)]


@pytest.mark.parametrize(("length", "lags", "advance"), CASES)
def test_equals_direct_sum_with_all_gradients(length: int, lags: int, advance: int) -> None:
    x, bias, basis, weight = inputs = parts(length, lags, torch.float64)
    expected = gradients(direct.convolve(x, weight @ basis, bias, advance), inputs)
    for y in (fft_conv(x, weight @ basis, bias, advance), basis_conv(x, basis, weight, bias, advance)):
        for ours, theirs in zip(gradients(y, inputs), expected, strict=True):
            assert (ours - theirs).abs().max() <= 1e-10


@pytest.mark.parametrize(("length", "lags", "advance"), [*CASES, (600, 600, 0), (601, 601, 0)])
def test_float32_is_right_to_1e5_relative(length: int, lags: int, advance: int) -> None:
    inputs = parts(length, lags, torch.float32)
    x, bias, basis, weight = exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    expected = gradients(fft_conv(x, weight @ basis, bias, advance), exact)
    x, bias, basis, weight = inputs
    for y in (fft_conv(x, weight @ basis, bias, advance), basis_conv(x, basis, weight, bias, advance)):
        for ours, theirs in zip(gradients(y, inputs), expected, strict=True):
            assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()


@pytest.mark.parametrize("advance", [0, 2])
def test_gradcheck(advance: int) -> None:
    x, bias, basis, weight = parts(6, 5, torch.float64)
    assert torch.autograd.gradcheck(lambda *a: basis_conv(*a, advance=advance), (x, basis, weight, bias))
    kernel = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *a: fft_conv(*a, advance=advance), (x, kernel, None))


@pytest.mark.parametrize("wanted", range(4))
def test_gradient_of_each_input_alone(wanted: int) -> None:
    inputs = parts(9, 9, torch.float64)
    x, bias, basis, weight = inputs
    every = gradients(basis_conv(x, basis, weight, bias), inputs)[1 + wanted]
    for index, tensor in enumerate(inputs):
        tensor.requires_grad_(index == wanted)
    alone = gradients(basis_conv(x, basis, weight, bias), [inputs[wanted]])[1]
    assert torch.equal(alone, every)


@pytest.mark.parametrize("channels", [(3, 5), (4, 4)])
def test_small_pieces_change_nothing(channels: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of frequencies, chunks of channels, spectra made again, memory used twice: all as in one piece."""
    i, o = channels
    shapes = [(9, i, 50), (o,), (4, 50), (o, i, 4)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    x, bias, basis, weight = inputs

    def both() -> list[Tensor]:
        factored = gradients(basis_conv(x, basis, weight, bias), inputs)
        return factored + gradients(fft_conv(x, weight @ basis, bias), inputs)

    whole = both()
    sliced = 7 * o * i * 16
    for schedule in (Schedule(sliced, CPU.signal_bytes, CPU.keep_bytes), Schedule(sliced, 1, 1), ACCELERATOR):
        monkeypatch.setattr("ckcnn.nn.plan.schedule_for", lambda _, schedule=schedule: schedule)
        for cut, uncut in zip(both(), whole, strict=True):
            assert (cut - uncut).abs().max() <= 1e-12


def test_backward_twice_through_a_kept_graph() -> None:
    inputs = parts(11, 11, torch.float64)
    x, bias, basis, weight = inputs
    y = basis_conv(x, basis, weight, bias).sum()
    first, second = (torch.autograd.grad(y, inputs, retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_nothing_leaks_from_the_future_or_between_sequences() -> None:
    x, bias, basis, weight = parts(20, 20, torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: basis_conv(x, basis, weight, bias), x)  # (2,5,20,2,3,20)
    influence = jacobian.abs().amax((1, 4))  # (sequence, output step, sequence, input step)
    assert influence[0, :, 1].max() < 1e-12
    assert influence[0, :, 0].triu(1).max() < 1e-12
    assert influence[0, :, 0].tril().min(1).values[-1] > 1e-6


def test_half_precision_goes_through_float32() -> None:
    x, bias, basis, weight = (tensor.detach() for tensor in parts(64, 64, torch.float32))
    exact = fft_conv(x.bfloat16().float(), weight @ basis, bias)
    ours = fft_conv(x.bfloat16(), weight @ basis, bias)
    assert ours.dtype == torch.bfloat16
    assert torch.equal(ours, exact.bfloat16())


@pytest.mark.parametrize("reach", [0, 1, 181, 783, 15999])
def test_fft_length_is_long_enough_and_smooth(reach: int) -> None:
    for length in (1, 2, 182, 784, 16000):
        n = fft_length(length, reach)
        assert length + reach <= n
        assert n % 16 == 0
        for prime in (2, 3, 5, 7):
            while n % prime == 0:
                n //= prime
        assert n == 1


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("length", [8, 9])
def test_layer_is_the_function(causal: bool, length: int) -> None:
    layer = FFTConv(3, 5, length, causal=causal).double()
    x = torch.randn(2, 3, 12, dtype=torch.float64)
    advance = 0 if causal else length // 2
    assert (layer(x) - direct.convolve(x, layer.kernel, layer.bias, advance)).abs().max() < 1e-12
    assert FFTConv(3, 5, length, bias=False).bias is None


@pytest.mark.parametrize(
    ("x", "kernel", "advance", "message"),
    [
        (torch.zeros(2, 3), torch.zeros(5, 3, 4), 0, r"shape \(batch, 3, time\), got \(2, 3\)"),
        (torch.zeros(2, 4, 6), torch.zeros(5, 3, 4), 0, r"3 channels .* got 4"),
        (torch.zeros(2, 3, 0), torch.zeros(5, 3, 4), 0, r"at least one sample, got shape \(2, 3, 0\)"),
        (torch.zeros(2, 3, 6, dtype=torch.int64), torch.zeros(5, 3, 4), 0, r"torch.int64; convert it with x.float"),
        (torch.zeros(2, 3, 6, dtype=torch.complex64), torch.zeros(5, 3, 4), 0, "torch.complex64"),
        (torch.zeros(2, 3, 6, dtype=torch.float64), torch.zeros(5, 3, 4), 0, r"torch.float64 but .* torch.float32"),
        (torch.zeros(2, 3, 6), torch.zeros(5, 3), 0, r"shape \(out, in, lags\).* got \(5, 3\)"),
        (torch.zeros(2, 3, 6), torch.zeros(5, 3, 4), 4, r"advance must lie in \[0, 4\).* got 4"),
        (torch.zeros(2, 3, 6), torch.zeros(5, 3, 4), -1, "got -1"),
    ],
)
def test_bad_input(x: Tensor, kernel: Tensor, advance: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fft_conv(x, kernel, advance=advance)


def test_bad_bias() -> None:
    with pytest.raises(ValueError, match=r"bias must have shape \(5,\), one value per output channel, got \(1,\)"):
        fft_conv(torch.zeros(2, 3, 6), torch.zeros(5, 3, 4), torch.zeros(1))
