"""What to say to a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks like `name`, in upper or lower case, or None if none does.

    Example:
        >>> closest("digit", ["Digits", "Arrays"])
        'Digits'
    """
    folded = {entry.lower(): entry for entry in known}
    found = difflib.get_close_matches(name.lower(), folded, n=1)
    return folded[found[0]] if found else None


def nearest(name: str, known: Iterable[str], what: str = "") -> str:
    """The known name that looks like `name`, or all of them.

    Example:
        >>> nearest("digit", ["Digits", "Arrays"])
        'did you mean Digits?'
        >>> nearest("x", ["fit", "test"], "commands")
        'the commands are fit, test'
    """
    names = list(known)
    close = closest(name, names)
    if close:
        return f"did you mean {close}?"
    return f"{f'the {what}' if what else 'there'} are {', '.join(dict.fromkeys(names))}"


def in_short(value: object) -> str:
    """An unexpected value, shortened to one line of a message.

    Example:
        >>> in_short("0,5"), in_short(None), in_short([1] * 100)[-8:]
        ("'0,5'", 'nothing', '1, 1,...')
    """
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
