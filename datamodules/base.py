"""What all benchmarks share: the facts, splitting, dropping, standardising, resampling and loading."""

from __future__ import annotations

import math
import multiprocessing
import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from ckcnn.datamodules import cache as caches
from ckcnn.datamodules.augmentation import Augmentation
from ckcnn.datamodules.coarse import RateSchedule, check_coarse
from ckcnn.datamodules.datasets import ResidentDataset, SequenceDataset, Store, WindowDataset
from ckcnn.datamodules.loading import ResumableLoader, ShardSampler, processes
from ckcnn.datamodules.options import Keep, Missing, Pad, Standardise, check_options
from ckcnn.datamodules.pipeline import Pipeline
from ckcnn.datamodules.preparation import PreparedDataModule
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.datamodules.sequences import SPLITS, DataError, Facts, SequenceBatch, facts_of
from ckcnn.datamodules.splits import split_indices
from ckcnn.datamodules.threads import one_thread
from ckcnn.datamodules.transforms import Statistics, kept_steps, statistics
from ckcnn.tasks import TASKS

_STATISTICS_VALUES = 1 << 20  # processed together, few enough to stay in the processor's cache
_EVALUATION_ROWS = 10  # of text, as in the authors' code


class SequenceDataModule(PreparedDataModule):
    """Sequences for training, validation and test.

    A benchmark says what its data is, in the attributes of `PreparedDataModule`, and reads it in `load`; everything
    else is here. The facts that a model needs are there before any file is read: `in_channels`, `out_channels`, `task`,
    `horizon`, and `dt`. After `setup`, `splits` holds the sequences of each split and `statistics` what they were
    standardised with.

    Args:
        root: folder of the data; by default ``$CKCNN_DATA``, else ``data``. It may be read-only if all files are there.
        batch_size: sequences in a batch of every split.
        num_workers: processes that make batches; 0 is fastest for data that fits into memory.
        seed: random seed of the split, of dropped samples and of the order of training sequences.
        drop_rate: fraction of the samples of every sequence to drop, the same ones in every epoch.
        missing: how missing values are represented: ``"mask"`` (zeros and a mask channel), ``"times"`` (left out; the
            batch carries the time stamps of the others) or ``"counts"`` (zeros, and the number of observations so far
            for each channel). By default what the paper did.
        train_dt: keep every n-th sample in training and validation: 1, 2, 4, 8 or 16.
        test_dt: keep every n-th sample in the test; by default as in training.
        keep: which sample to count from when every n-th one is kept: the ``"first"``, as in the paper, or the
            ``"last"``, so that the newest sample is kept at every rate.
        standardise: ``"channel"``, ``"step"`` (one mean for every time index, as the authors did) or ``"none"``. The
            default depends on the benchmark.
        pad: how shorter sequences are filled up: ``"paper"``, or ``"valid"`` for zeros and true lengths in the batch.
        cache: folder of the prepared data; by default ``cache`` in `root`.
        schedule_dt: train coarse to fine: with ``"8:10,4:5,1:5"`` the first 10 epochs see every 8th sample, the next 5
            every 4th, and the others all of them, in steps of `train_dt`. Validation uses the last rate.
        antialias: whether to apply a low-pass filter before samples are left out; the paper does not.
        on_device: whether to keep all training and validation sequences on the GPU; each process keeps all of them.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        batch_size: int = 64,
        num_workers: int = 0,
        seed: int = 0,
        drop_rate: float = 0.0,
        missing: Missing | None = None,
        train_dt: int = 1,
        test_dt: int | None = None,
        standardise: Standardise | None = None,
        pad: Pad = "paper",
        keep: Keep = "first",
        cache: str | os.PathLike[str] | None = None,
        schedule_dt: str | None = None,
        antialias: bool = False,
        on_device: bool = False,
    ) -> None:
        super().__init__(root, cache, seed)
        self.batch_size, self.num_workers = batch_size, num_workers
        self.drop_rate, self.missing = drop_rate, missing or self.default_missing
        self.train_dt, self.test_dt = train_dt, train_dt if test_dt is None else test_dt
        self.standardise, self.pad, self.keep = standardise or self.default_standardise, pad, keep
        self.schedule_dt, self.antialias, self.on_device = schedule_dt, antialias, on_device
        self.schedule = None if schedule_dt is None else RateSchedule.parse(schedule_dt)
        check_options(self)
        check_coarse(self)
        self.splits: dict[str, NDArray[np.int64]] = {}
        self.statistics: Statistics | None = None
        self.target_statistics: Statistics | None = None
        self._store: Store | None = None
        self._training: ResumableLoader | None = None
        self._position = 0  # in the epoch that a resumed run is in
        self._varying = False
        self._given: Preprocessing | None = None

    @property
    def in_channels(self) -> int:
        """Channels of a batch, those of the data and the mask or the counts."""
        if not self._incomplete or self.missing == "times":
            return self.channels
        return self.channels + (1 if self.missing == "mask" else self._sporadic)

    @property
    def horizon(self) -> int:
        """Length of a training sequence, in training samples."""
        return math.ceil(self.length / self.train_dt)

    @property
    def dt(self) -> dict[str, float]:
        """Sampling step of each split in training samples; 1 where the batches carry stamps, which hold it already."""
        test = 1.0 if self._carries_stamps else self.test_dt / self.train_dt
        return {"train": 1.0, "val": 1.0, "test": test}

    @property
    def facts(self) -> Facts:
        """What a model has to know, such as ``CKCNN(**data.facts._asdict())``."""
        return facts_of(self)

    @property
    def _sporadic(self) -> int:
        return self.channels if self.sporadic is None else self.sporadic

    @property
    def _carries_stamps(self) -> bool:
        return self.stamped or self.missing == "times"

    @property
    def _incomplete(self) -> bool:
        return self.gaps or self.drop_rate > 0

    def setup(self, stage: str | None = None) -> None:
        """Read the cache, split, and take the statistics of the training sequences; in every process."""
        if self._store is not None:
            return
        if self.num_workers:
            _check_shared_memory(self.num_workers)
        store = self.open_store()
        self._varying = store.lengths is not None
        self.splits = self.split(store)
        if not TASKS[self.task].from_tokens:
            if self.drop_rate:
                store.kept = kept_steps(store.shape[0], self.length, self.drop_rate, self.seed)
            self.statistics = self._statistics(store) if self._given is None else self._given.statistics
            self.target_statistics = self._target_statistics(store)
        self._store = store

    def open_store(self) -> Store:
        """Return the stored sequences: those of the cache.

        Raises:
            DataError: if `prepare_data` has not been called, or the cache does not fit.
        """
        if problem := caches.find_problem(self.cache_path, self.cache_key(), whole=False):
            raise DataError(f"the cache {self.cache_path} cannot be used: {problem}; call prepare_data() first")
        return Store.read(self.cache_path)

    def split(self, store: Store) -> dict[str, NDArray[np.int64]]:
        """Return which of the stored sequences are for training, validation and test."""
        codes = None if store.split is None else store.split.numpy()
        if TASKS[self.task].from_tokens:
            return {name: np.flatnonzero(codes == code) for name, code in SPLITS.items()}
        return split_indices(store.all_labels(), codes, self.seed)

    @property
    def preprocessing(self) -> Preprocessing:
        """What lies between raw sequences and batches; complete after `setup`."""
        order, statistics, targets = self.order(), self.statistics, self.target_statistics
        return Preprocessing(
            data=type(self).__name__,
            task=self.task,
            channels=self.channels,
            length=self.length,
            out_channels=self.out_channels,
            batch_size=self.batch_size,
            classes=tuple(self.classes),
            vocabulary=self.vocabulary,
            spelling=self.spelling,
            channel_names=tuple(self.channel_names),
            features=self.features,
            rate=self.rate,
            origin=self.origin,
            unit=self.unit,
            sporadic=self._sporadic,
            gaps=self.gaps,
            stamped=self.stamped,
            time_unit=self.time_unit if self.stamped else 1.0,
            time_step=self.time_step,
            varying=self._varying,
            padding="valid" if self.pad == "valid" else self.padding,
            missing=self.missing if self._incomplete or self.missing == "times" else None,
            keep=self.keep,
            train_dt=self.train_dt,
            antialias=self.antialias,
            history=self.history,
            mean=None if statistics is None else statistics.mean,
            std=None if statistics is None else statistics.std,
            order=None if order is None else torch.from_numpy(order),
            ahead=self.ahead,
            target_mean=None if targets is None else targets.mean,
            target_std=None if targets is None else targets.std,
        )

    def use_statistics(self, trained: Preprocessing) -> None:
        """Standardise as a trained model was: new data must never be scaled by its own mean and deviation.

        Raises:
            ValueError: if the data is already set up.
        """
        if self._store is not None:
            raise ValueError(f"{type(self).__name__} is set up already; call use_statistics() before setup()")
        self._given = trained

    def dataset(self, split: str) -> SequenceDataset | WindowDataset:
        """The sequences of ``"train"``, ``"val"`` or ``"test"``, ready for the model."""
        if self._store is None:
            raise DataError(f"{type(self).__name__} is not set up; call prepare_data() and setup() first")
        index = self.splits[split]
        if TASKS[self.task].from_tokens:
            stream = self._store.x[torch.from_numpy(index)]
            if split != "train":
                return WindowDataset(stream, _EVALUATION_ROWS, self.length, self.history)
            count, rank = processes()
            return WindowDataset(stream, self.batch_size * count, self.length, self.history, count, rank)
        found = SequenceDataset(self._store, index, self._pipeline(split))
        if split == "train":
            found.augmentation = self.augmentation()
        if split == "train" and self.schedule is not None:
            found.schedule = self.schedule
            found.coarse = {step: self._pipeline(split, step) for step, _ in self.schedule.phases}
        return found

    def augmentation(self) -> Augmentation | None:
        """Return what changes the training sequences in each epoch; here nothing."""
        return None

    def train_dataloader(self) -> DataLoader[SequenceBatch]:
        """Training batches in an order that depends on `seed` and the epoch."""
        if self.schedule is not None and self.trainer is not None and not self.trainer.fast_dev_run:  # type: ignore[attr-defined]
            self.schedule.check_end(self.trainer.max_epochs)
        self._training = self._loader("train")
        self._training.schedule = None if self._carries_stamps else self.schedule
        self._training.skip, self._position = self._position, 0
        return self._training

    def state_dict(self) -> dict[str, int]:
        """The batches of the epoch so far, 0 if it is over, and their size; Lightning keeps it in checkpoints."""
        given = self._position
        if self._training is not None and self.trainer is not None:
            given = self._training.given % int(self.trainer.num_training_batches)
        return {"given": given, "together": self.batch_size * processes()[0]}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """The next training loader leaves out the batches that were given, to however many processes.

        Raises:
            DataError: if the batches of all processes together have another size than before.
        """
        count = processes()[0]
        before, together = state_dict.get("together"), self.batch_size * count
        if before not in (None, together):
            raise DataError(
                f"the run was trained with {before} sequences a step, but {count} "
                f"{'process' if count == 1 else 'processes'} with --data.batch_size {self.batch_size} make {together}; "
                f"set --data.batch_size to {before} divided by the number of processes, "
                "or leave out --ckpt_path to start a new run"
            )
        self._position = state_dict["given"]

    def val_dataloader(self) -> DataLoader[SequenceBatch]:
        """Validation batches in file order."""
        return self._loader("val")

    def test_dataloader(self) -> DataLoader[SequenceBatch]:
        """Test batches in file order."""
        return self._loader("test")

    def predict_dataloader(self) -> DataLoader[SequenceBatch]:
        """The test batches."""
        return self._loader("test")

    def _loader(self, split: str) -> ResumableLoader:
        dataset, training = self.dataset(split), split == "train"
        windows, resident = isinstance(dataset, WindowDataset), self.on_device and split in ("train", "val")
        batch_size = 1 if windows else self.batch_size
        shard = (1, 0) if windows and training else processes()  # training shares the rows of each window
        sampler = ShardSampler(dataset, self.seed if training else None, batch_size, *shard)
        return ResumableLoader(
            self._resident(dataset) if resident and len(dataset) else dataset,
            batch_size=batch_size,
            sampler=sampler,
            num_workers=self.num_workers,
            collate_fn=_as_is,
            pin_memory=torch.cuda.is_available() and not resident,
            persistent_workers=self.num_workers > 0,
        )

    def _resident(self, dataset: SequenceDataset | WindowDataset) -> ResidentDataset:
        if isinstance(dataset, WindowDataset) or dataset.differs_by_epoch:
            raise DataError(
                "on_device needs sequences that are the same in every epoch, not windows of a text, augmented or at "
                "another rate; leave out --data.on_device"
            )
        device = torch.device("cpu") if self.trainer is None else self.trainer.strategy.root_device
        return ResidentDataset(dataset, device)

    def _statistics(self, store: Store) -> Statistics | None:
        if self.standardise == "none":
            return None
        pipeline, train = self._pipeline("train"), torch.from_numpy(self.splits["train"])
        rows = max(1, _STATISTICS_VALUES // (self.channels * self.length))
        batches = (pipeline.observe(store.rows(part)) for part in torch.split(train, rows))
        with one_thread():
            return statistics(batches, self.standardise, self.unscaled)

    def _target_statistics(self, store: Store) -> Statistics | None:
        """Mean and deviation of the targets of the training sequences, one pair for each output."""
        if not self.standardise_targets or TASKS[self.task].target != "value":
            return None
        y = store.labels(torch.from_numpy(self.splits["train"])).double()
        over = [0, *range(2, y.dim())]
        counted = y.eq(y)
        count = counted.sum(over, keepdim=True).clamp(min=1)
        mean = torch.where(counted, y, 0.0).sum(over, keepdim=True) / count
        square = torch.where(counted, y - mean, 0.0).square().sum(over, keepdim=True) / count
        return Statistics(mean.float(), torch.where(square > 1e-12 * mean.square(), square.sqrt(), 1.0).float())

    def reference_scores(self, split: str) -> dict[str, float]:
        """Return scores on a split of a prediction that needs no training, by metric, to compare with; here none."""
        return {}

    def _pipeline(self, split: str, step: int = 1) -> Pipeline:
        return self.preprocessing.pipeline(step * (self.test_dt if split == "test" else self.train_dt))


def _check_shared_memory(workers: int) -> None:
    """Processes that make batches need it; asked before training starts."""
    try:
        multiprocessing.Lock()
    except OSError as error:
        raise DataError(
            f"num_workers {workers} needs shared memory, and this machine gives none in /dev/shm ({error.strerror}); "
            "use num_workers 0"
        ) from None


def _as_is(batch: Any) -> Any:
    """The data sets return whole batches already."""
    return batch
