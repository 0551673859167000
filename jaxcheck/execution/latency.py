"""A distribution from samples: never a single best time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxcheck.results import Latency


def distribution(reply: Mapping[str, Any]) -> Latency:
    """Percentiles in seconds, and the spread (p90 - p10) / p50."""
    samples = np.asarray(reply["samples"])
    p10, p50, p90, p99 = (float(value) for value in np.percentile(samples, [10, 50, 90, 99]))
    return Latency(
        samples=samples.size,
        first=reply["first"],
        min=float(samples.min()),
        p50=p50,
        p90=p90,
        p99=p99,
        max=float(samples.max()),
        spread=(p90 - p10) / p50 if p50 else 0.0,
        conditions=dict(reply["conditions"]),
    )
