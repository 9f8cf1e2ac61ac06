"""What bad input gets: one sentence that says what was expected, what was given and what to do. Needs Python alone."""

from ckcnn.checks.options import (
    check_choice,
    check_count,
    check_counts,
    check_fraction,
    check_not_negative,
    is_number,
)

__all__ = ["check_choice", "check_count", "check_counts", "check_fraction", "check_not_negative", "is_number"]
