"""Continuous-kernel convolutions as PyTorch modules. Tensors are ``(batch, channels, time)``; needs torch alone."""

from ckcnn.nn.allocator import keep_memory
from ckcnn.nn.block import CKBlock, ConvFactory
from ckcnn.nn.ckconv import CKConv
from ckcnn.nn.fftconv import FFTConv
from ckcnn.nn.functional import fft_conv
from ckcnn.nn.kernel_window import GaussianWindow
from ckcnn.nn.kernels import FourierKernel, KernelFactory, KernelNet, Siren
from ckcnn.nn.magnet import MAGNet
from ckcnn.nn.mlp_kernel import MLPKernel
from ckcnn.nn.multiscale import MultiscaleSiren
from ckcnn.nn.network import CKBackbone, CKNet, CKTextNet
from ckcnn.nn.normalization import StepNorm
from ckcnn.nn.point_kernel import PointKernel
from ckcnn.nn.prenorm import PreNormBackbone, PreNormBlock
from ckcnn.nn.regularization import kernel_penalty
from ckcnn.nn.separable import DepthwiseCKConv, SeparableCKConv
from ckcnn.nn.streaming import NetworkStream
from ckcnn.nn.time_grid import TimeGrid

__all__ = [
    "CKBackbone",
    "CKBlock",
    "CKConv",
    "CKNet",
    "CKTextNet",
    "ConvFactory",
    "DepthwiseCKConv",
    "FFTConv",
    "FourierKernel",
    "GaussianWindow",
    "KernelFactory",
    "KernelNet",
    "MAGNet",
    "MLPKernel",
    "MultiscaleSiren",
    "NetworkStream",
    "PointKernel",
    "PreNormBackbone",
    "PreNormBlock",
    "SeparableCKConv",
    "Siren",
    "StepNorm",
    "TimeGrid",
    "fft_conv",
    "keep_memory",
    "kernel_penalty",
]
