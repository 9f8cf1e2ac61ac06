"""The network of the authors' weights as a LightningModule."""

from __future__ import annotations

from ckcnn.models.ckcnn import CKCNN
from ckcnn.reference.convolution import ReferenceConv


class ReferenceCKCNN(CKCNN):
    """A `CKCNN` whose convolutions are the authors': what `ckcnn import` makes."""

    convolution, takes_times = ReferenceConv, False
