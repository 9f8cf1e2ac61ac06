"""What the classifier and the regressor share: their options, training, and how they are pickled."""

# N series, C channels, T time

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags, check_random_state

from ckcnn.checks import check_count, check_fraction
from ckcnn.datamodules import DataError, RawSequences
from ckcnn.datamodules.in_memory import InMemory
from ckcnn.datamodules.options import Missing, Standardise
from ckcnn.datamodules.sequences import split_codes
from ckcnn.datamodules.splits import cut
from ckcnn.inference.model import TrainedModel
from ckcnn.models.ckcnn import CKCNN
from ckcnn.models.networks import Block, Convolution, Kernel, Omega0, Readout
from ckcnn.models.optimization import Schedule
from ckcnn.models.sequence_module import SequenceModule
from ckcnn.nn.kernel_window import Window
from ckcnn.nn.normalization import Norm
from ckcnn.sktime.panel import Panel, add_differences, add_normalised, read_panel
from ckcnn.sktime.training import epochs_of, seeded, train

TAGS = {
    "authors": ["ckcnn"],
    "maintainers": ["ckcnn"],
    "X_inner_mtype": ["df-list", "numpy3D"],  # what is no array already becomes the first one, which takes any lengths
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "capability:categorical_in_X": False,
    "capability:random_state": True,
    "property:randomness": "derandomized",
}
_SEEDS = 2**31 - 1


class CKCNNEstimator:
    """The options of both estimators, and everything between series and a trained network.

    `CKCNNClassifier` explains the options.
    """

    model: ClassVar[type[SequenceModule]] = CKCNN  # what is trained
    options: ClassVar[Sequence[str]] = (  # those of the estimator that it takes
        *("learning_rate", "schedule", "hidden_channels", "num_blocks", "omega_0", "kernel", "kernel_hidden"),
        *("block", "conv", "window", "causal", "norm", "readout", "dropout", "input_dropout", "weight_dropout"),
        *("kernel_penalty", "weight_decay", "label_smoothing", "kernel_rate", "window_rate", "warm_up"),
    )
    task: str  # a key of `ckcnn.tasks.TASKS`
    # scikit-learn's model selection sets it before `fit` and deletes it afterwards; sktime's `reset`, at the start of
    # `fit`, deletes every attribute that the class does not have.
    _parent_callback_ctx: Any = None

    def __init__(
        self,
        n_epochs: int | None = None,
        n_steps: int = 1000,
        batch_size: int = 16,
        learning_rate: float = 1e-2,
        schedule: Schedule = "one_cycle",
        warm_up: float = 0.1,
        block: Block = "pre_norm_gated",
        conv: Convolution = "depthwise",
        hidden_channels: int = 32,
        num_blocks: int = 4,
        memory: int | None = 64,
        omega_0: Omega0 = "auto",
        kernel: Kernel = "sine",
        kernel_hidden: int = 32,
        window: Window = "channel",
        causal: bool = True,
        norm: Norm = "batch",
        readout: Readout = "mean",
        dropout: float = 0.1,
        input_dropout: float = 0.0,
        weight_dropout: float = 0.0,
        kernel_penalty: float = 0.0,
        weight_decay: float = 0.05,
        label_smoothing: float = 0.1,
        kernel_rate: float = 0.25,
        window_rate: float = 0.25,
        standardise: Standardise = "channel",
        differences: bool = True,
        normalised: bool = True,
        missing: Missing = "mask",
        n_networks: int = 1,
        validation_fraction: float = 0.0,
        patience: int = 20,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        accelerator: str = "auto",
    ) -> None:
        self.n_epochs = n_epochs
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.warm_up = warm_up
        self.block = block
        self.conv = conv
        self.hidden_channels = hidden_channels
        self.num_blocks = num_blocks
        self.memory = memory
        self.omega_0 = omega_0
        self.kernel = kernel
        self.kernel_hidden = kernel_hidden
        self.window = window
        self.causal = causal
        self.norm = norm
        self.readout = readout
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.weight_dropout = weight_dropout
        self.kernel_penalty = kernel_penalty
        self.weight_decay = weight_decay
        self.label_smoothing = label_smoothing
        self.kernel_rate = kernel_rate
        self.window_rate = window_rate
        self.standardise = standardise
        self.differences = differences
        self.normalised = normalised
        self.missing = missing
        self.n_networks = n_networks
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.verbose = verbose
        self.accelerator = accelerator
        super().__init__()

    def fit_networks(self, series: Any, y: NDArray[Any], classes: Sequence[str] = ()) -> None:
        """Train all networks, and set the fitted attributes.

        Args:
            series: as sktime gives them.
            y: numbers of classes ``(N,)``, or values ``(N, 1)``.
            classes: their names.
        """
        self._check()
        panel = read_panel(series)
        if panel.x.shape[2] < 2:
            raise ValueError("X must have a series of at least 2 steps, the longest one has 1")
        self.n_channels_in_: int = panel.x.shape[1]
        panel = self._as_seen(panel)
        random = check_random_state(self.random_state)
        self.networks_: list[SequenceModule] = []
        self.histories_: list[list[dict[str, float]]] = []
        for seed in random.randint(_SEEDS, size=self._option("n_networks")).tolist():
            network, history = self._train(panel, y, classes, seed)
            self.networks_.append(network)
            self.histories_.append(history)

    @property
    def network_(self) -> SequenceModule:
        """The first of the trained networks, a LightningModule."""
        return self.networks_[0]

    def answers(self, series: Any) -> list[NDArray[Any]]:
        """Return what each network predicts for some series: probabilities ``(N, classes)``, or values ``(N, 1)``."""
        panel = self._as_seen(read_panel(series, self.n_channels_in_))
        return [_answers(network, panel) for network in self.networks_]

    def _as_seen(self, panel: Panel) -> Panel:
        """The series with the channels that the network also sees."""
        panel = add_normalised(panel) if self.normalised else panel
        return add_differences(panel) if self.differences else panel

    def _train(
        self, panel: Panel, y: NDArray[Any], classes: Sequence[str], seed: int
    ) -> tuple[SequenceModule, list[dict[str, float]]]:
        with seeded(seed):
            codes = self._split(y, seed)
            sequences = RawSequences(panel.x, y, split=codes, lengths=panel.lengths)
            data = InMemory(
                sequences,
                self.task,
                classes,
                batch_size=min(self._option("batch_size"), len(y)),
                seed=seed,
                missing=self.missing,
                standardise=self.standardise,
                pad="valid",
            )
            facts = data.facts._asdict()
            facts["horizon"] = min(self._option("memory") or data.horizon, data.horizon)
            network = self.build(facts)
            epochs = self._option("n_epochs") or epochs_of(
                self._option("n_steps"), int((codes == 0).sum()), data.batch_size
            )
            history = train(network, data, epochs, seed, self._option("patience"), bool(self.verbose), self.accelerator)
        return network, history

    def build(self, facts: dict[str, Any]) -> SequenceModule:
        """Return an untrained network for data with these facts."""
        return self.model(**facts, **{name: self._option(name) for name in self.options})

    def _option(self, name: str) -> Any:
        """An option as a plain value; a grid of scikit-learn has NumPy's numbers."""
        value = getattr(self, name)
        return value.item() if isinstance(value, np.generic) else value

    def _split(self, y: NDArray[Any], seed: int) -> NDArray[np.int8]:
        codes = split_codes("train", len(y))
        fraction = self._option("validation_fraction")
        if fraction:
            try:
                _, held_out = cut(np.arange(len(y)), y, 1 - fraction, seed)
            except DataError as error:
                raise ValueError(
                    f"validation_fraction {fraction} of {len(y)} series leaves a part without all classes; "
                    "give more series of each class, another fraction, or 0 for no validation"
                ) from error
            codes[held_out] = split_codes("val", len(held_out))
        return codes

    def _check(self) -> None:
        """Options that nobody else looks at."""
        for name in ("n_steps", "batch_size", "n_networks", "patience"):
            check_count(name, self._option(name))
        for name, least in (("n_epochs", 1), ("memory", 2)):
            if getattr(self, name) is not None:
                check_count(name, self._option(name), least)
        check_fraction("validation_fraction", self._option("validation_fraction"))
        for name in ("differences", "normalised", "causal"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")

    def __sklearn_tags__(self) -> Tags:
        """What scikit-learn's model selection asks an estimator; sktime itself does not provide it."""
        classifies = self.task == "classification"
        return Tags(
            estimator_type="classifier" if classifies else "regressor",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if classifies else None,
            regressor_tags=None if classifies else RegressorTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True, allow_nan=True),
        )

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: networks as plain values and tensors, since torch cannot pickle normalised weights."""
        state = dict(vars(self))
        if "networks_" in state:
            state["networks_"] = [network.artefact() for network in self.networks_]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "networks_" in state:
            state = {**state, "networks_": [self.model.from_artefact(content) for content in state["networks_"]]}
        vars(self).update(state)


def _answers(network: SequenceModule, panel: Panel) -> NDArray[Any]:
    trained = network.preprocessing
    assert trained is not None
    # A series may lack values where none was missing in training: they count as the mean then.
    model = TrainedModel(network.net, trained.task, replace(trained, gaps=True))
    if network.task.target == "value":
        return model.predict(panel.x, lengths=panel.lengths)
    return model.predict_proba(panel.x, lengths=panel.lengths)
