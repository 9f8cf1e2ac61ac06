"""Private parts of torchmetrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchmetrics import Metric


def restore(metric: Metric, state: Mapping[str, Any]) -> None:
    """Give a metric that has seen nothing yet the state of another, as its ``metric_state`` returned it.

    Private: the counter of updates. `Metric.load_state_dict` and `Metric.merge_state` leave it at zero, so that
    `compute` warns that nothing was counted, and the second one refuses metrics with ``full_state_update``.
    """
    vars(metric).update(state, _update_count=1)
