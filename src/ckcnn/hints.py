"""What to say to a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], what: str = "") -> str:
    """The known name that looks like `name`, or all of them.

    Example:
        >>> nearest("digit", ["Digits", "Arrays"])
        'did you mean Digits?'
        >>> nearest("x", ["fit", "test"], "commands")
        'the commands are fit, test'
    """
    folded = {entry.lower(): entry for entry in known}
    close = difflib.get_close_matches(name.lower(), folded, n=1)
    if close:
        return f"did you mean {folded[close[0]]}?"
    return f"{f'the {what}' if what else 'there'} are {', '.join(folded.values())}"
