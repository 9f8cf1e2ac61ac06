"""A causal convolution of a signal that arrives piece by piece, with a long kernel: partitioned convolution."""

# B batch, O out channels, I in channels, T new steps, L lags, S size of a block, P blocks of lags, K blocks of steps,
# F frequencies

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ckcnn.checks.memory import check_room
from ckcnn.nn.functional import full_precision
from ckcnn.nn.partition import Level, Partition, cheapest_partition

_SEGMENT = 1024  # steps at least, after which the buffers start again from their beginning
_PIECE = 1 << 22  # values that the windows of the newest lags may take


class StatefulStage(nn.Module):
    """A part of a stream that remembers something: `forward` takes the new steps and returns as many."""

    def memory(self) -> dict[str, Tensor]:
        """Return what is remembered; its first axis counts the streams."""
        raise NotImplementedError

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Remember this instead."""
        raise NotImplementedError

    def forget(self, rows: list[int]) -> None:
        """Start the streams with these numbers anew."""
        raise NotImplementedError


class PartitionedConv(StatefulStage):
    """``y[t] = sum over lags u of kernel[u] @ x[t - u] + bias`` at every new step, from a memory of the old ones.

    The newest lags are summed directly. All others are convolved in blocks by FFT, with spectra of the kernel that are
    computed once: what a complete block of samples gives to the next steps is computed as soon as one of these steps
    arrives, and lies ready for the others. Where many steps arrive at once, whole blocks of them are convolved
    by FFT with the newest lags, too.

    The samples lie in a buffer: `lookback` old ones, then a segment that is being filled. When it is full, the newest
    samples move to the front. Blocks are aligned to the segment.

    Args:
        kernel: ``(O, I, L)``; index ``j`` is lag ``j``.
        bias: ``(O,)`` or None.
        batch: how many signals arrive in step.
        partition: how to cut the kernel; by default by what it costs.
        depthwise: whether each channel has its own kernel; ``I`` is then 1 for the kernel ``(C, 1, L)``.
    """

    history: Tensor  # (B, I, lookback + segment)
    ready: Tensor  # (B, O, segment): bias and what complete blocks give to each step
    bias: Tensor  # (O, 1)

    def __init__(
        self,
        kernel: Tensor,
        bias: Tensor | None,
        batch: int,
        partition: Partition | None = None,
        depthwise: bool = False,
    ) -> None:
        super().__init__()
        kernel = kernel.detach().to(torch.promote_types(kernel.dtype, torch.float32))  # no FFT knows less
        out_channels, in_channels, self.lags = kernel.shape
        partition = partition or cheapest_partition(self.lags, in_channels, out_channels, batch)
        direct, blocks = (DepthwiseDirectLags, DepthwiseBlockLags) if depthwise else (DirectLags, BlockLags)
        channels = out_channels if depthwise else in_channels
        self.direct = direct(kernel[..., : partition.direct])
        self.levels = nn.ModuleList(blocks(kernel, level) for level in partition.levels)
        self.sizes = sizes = [level.size for level in partition.levels]
        # Whole blocks of this size of new steps meet the newest lags by FFT.
        self.bulk = next((size for size in sizes if size >= 4 * partition.direct), sizes[-1]) if sizes else None
        self.newest = blocks(kernel, Level(self.bulk, 0, self.bulk)) if self.bulk else None
        self.segment = max([_SEGMENT, *sizes])
        self.lookback = max([self.lags - 1, *(level.stop + level.size for level in partition.levels)])
        self.piece = max(1, _PIECE // (batch * channels * partition.direct))
        self.position = 0
        size = kernel.element_size() * batch * channels * (self.lookback + self.segment)
        check_room(f"a layer of {batch:,} streams", size, "use fewer streams")
        bias = kernel.new_zeros(out_channels) if bias is None else bias.detach().to(kernel.dtype)
        self.register_buffer("bias", bias[:, None].clone())
        self.register_buffer("history", kernel.new_zeros(batch, channels, self.lookback + self.segment))
        self.register_buffer("ready", self.bias.repeat(batch, 1, self.segment))

    def memory(self) -> dict[str, Tensor]:
        """Return the newest ``L - 1`` samples, ``(B, I, L - 1)``, zero before the first one.

        What is ready follows from them, so the memory does not depend on how the kernel is cut.
        """
        now = self.lookback + self.position
        return {"samples": self.history[..., now - self.lags + 1 : now]}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        self.position = 0
        self.history.zero_()
        self.history[..., self.lookback - self.lags + 1 : self.lookback] = memory["samples"]
        self.ready.copy_(self.bias.expand_as(self.ready))

    def forget(self, rows: list[int]) -> None:
        self.history[rows] = 0
        self.ready[rows] = self.bias.expand_as(self.ready[0])

    def forward(self, x: Tensor) -> Tensor:
        """Convolve the new steps ``(B, I, T) -> (B, O, T)``."""
        pieces, start = [], 0
        with full_precision(x.device):
            while start < x.shape[-1]:
                stop = min(x.shape[-1], start + min(self.piece, self.segment - self.position))
                pieces.append(self._advance(x[..., start:stop]))
                start = stop
        return (pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-1)).to(x.dtype)

    def _advance(self, x: Tensor) -> Tensor:
        """Convolve steps that fit into the segment."""
        start, stop = self.position, self.position + x.shape[-1]
        self.history[..., self.lookback + start : self.lookback + stop] = x
        whole, rest = self._whole_blocks(start, stop)
        for size, level in zip(self.sizes, self.levels, strict=True):
            for part in [(start, stop)] if self.bulk and size >= self.bulk else rest:
                level(self.history, self.lookback, self.ready, *part)
        for part in rest:
            self.direct(self.history, self.lookback, self.ready, *part)
        if self.newest is not None and whole is not None:
            self.newest(self.history, self.lookback, self.ready, *whole)
        y = self.ready[..., start:stop].clone()
        self.position = stop
        if stop == self.segment:
            self.history[..., : self.lookback] = self.history[..., self.segment :].clone()
            self.ready.copy_(self.bias.expand_as(self.ready))
            self.position = 0
        return y

    def _whole_blocks(self, start: int, stop: int) -> tuple[tuple[int, int] | None, list[tuple[int, int]]]:
        """The steps that fill whole blocks of the size `bulk`, and those before and after them."""
        if self.bulk is None:
            return None, [(start, stop)]
        first, last = -(-start // self.bulk) * self.bulk, stop // self.bulk * self.bulk
        if last <= first:
            return None, [(start, stop)]
        return (first, last), [part for part in ((start, first), (last, stop)) if part[0] < part[1]]


class DirectLags(nn.Module):
    """The newest lags of a kernel ``(O, I, L)``, summed directly."""

    weight: Tensor  # (O, I L), oldest lag first, as samples lie in time

    def __init__(self, kernel: Tensor) -> None:
        super().__init__()
        self.lags = kernel.shape[-1]
        self.register_buffer("weight", kernel.flip(-1).flatten(1).contiguous())

    def forward(self, history: Tensor, lookback: int, ready: Tensor, start: int, stop: int) -> None:
        """Add their part of the steps from `start` until before `stop` to what is ready."""
        samples = history[..., lookback + start - self.lags + 1 : lookback + stop]
        ready[..., start:stop] += self._sums(samples)

    def _sums(self, samples: Tensor) -> Tensor:
        """What the lags give: ``(B, I, T + L - 1) -> (B, O, T)``."""
        batch, in_channels, length = samples.shape
        if length == self.lags:
            return nn.functional.linear(samples.reshape(batch, -1), self.weight)[..., None]
        windows = samples.unfold(-1, self.lags, 1).permute(0, 2, 1, 3)  # (B, T, I, L)
        return nn.functional.linear(windows.reshape(batch, -1, in_channels * self.lags), self.weight).mT


class BlockLags(nn.Module):
    """The lags of one level of a kernel ``(O, I, L)``, convolved in blocks by FFT (overlap-save).

    The block of lags that begins at lag ``u`` gives to a block of steps what it makes of two blocks of samples: the one
    that began ``u`` steps earlier and the one before it.
    """

    spectra: Tensor  # (F, O, I P), oldest block of lags first, as blocks of samples lie in time

    def __init__(self, kernel: Tensor, level: Level) -> None:
        super().__init__()
        self.size, self.start, self.blocks = level.size, level.start, level.blocks
        lags = kernel[..., level.start : level.stop]
        lags = nn.functional.pad(lags, (0, self.blocks * self.size - lags.shape[-1]))
        spectra = torch.fft.rfft(lags.view(*lags.shape[:2], self.blocks, self.size), 2 * self.size)  # (O, I, P, F)
        self.register_buffer("spectra", spectra.flip(2).flatten(1, 2).permute(2, 0, 1).contiguous())

    @property
    def lookback(self) -> int:
        """How many samples before a block of steps are needed."""
        return self.start + self.blocks * self.size

    def forward(self, history: Tensor, lookback: int, ready: Tensor, start: int, stop: int) -> None:
        """Add their part to what is ready for all blocks that begin from `start` until before `stop`."""
        first = -(-start // self.size) * self.size
        if first >= stop:
            return
        count = (stop - 1 - first) // self.size + 1
        oldest = lookback + first - self.lookback
        samples = history[..., oldest : oldest + (self.blocks + count) * self.size]
        windows = torch.fft.rfft(samples.unfold(-1, 2 * self.size, self.size))  # (B, I, P + K - 1, F)
        y = torch.fft.irfft(self._product(windows), 2 * self.size)  # (B, O, K, 2 S)
        ready[..., first : first + count * self.size] += y[..., self.size :].flatten(2)

    def _product(self, windows: Tensor) -> Tensor:
        """Multiply spectra: ``(B, I, P + K - 1, F) -> (B, O, K, F)``."""
        batch, in_channels = windows.shape[:2]
        columns = windows.unfold(2, self.blocks, 1).permute(3, 1, 4, 0, 2)  # (F, I, P, B, K)
        count = columns.shape[-1]
        y = torch.bmm(self.spectra, columns.reshape(-1, in_channels * self.blocks, batch * count))  # (F, O, B K)
        return y.view(*y.shape[:2], batch, count).permute(2, 1, 3, 0)


class DepthwiseDirectLags(DirectLags):
    """The newest lags of kernels ``(C, 1, L)``, one for each channel."""

    def _sums(self, samples: Tensor) -> Tensor:
        return torch.einsum("bctl,cl->bct", samples.unfold(-1, self.lags, 1), self.weight)


class DepthwiseBlockLags(BlockLags):
    """The lags of one level of kernels ``(C, 1, L)``, one for each channel."""

    def _product(self, windows: Tensor) -> Tensor:
        return torch.einsum("fcp,bckfp->bckf", self.spectra, windows.unfold(2, self.blocks, 1))
