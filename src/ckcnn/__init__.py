"""Training framework for continuous-kernel convolutional networks (CKConv, ICLR 2022)."""

__version__ = "0.1.0"
