"""What the errors of jsonargparse say, and how it hands over classes.

It raises one kind of error for everything, so only the text tells them apart. Undocumented: the texts. Each pattern is
for ``re.search`` with ``re.DOTALL``, and its docstring names its groups. Where it allows two words, they are those of
different versions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

UNKNOWN_INIT_ARG = (
    r"class_path '([\w.]+)':(?:(?!class_path).)*?(?:Option|Key) '?([\w.]+)'? is not (?:accepted|expected)"
)
"""A class has no such argument: the path of the class, the argument."""

UNKNOWN_ARGUMENT = r"[Uu]nrecognized arguments: (\S+)"
"""The command line has an unknown option, or a word without an option: the first of them."""

UNKNOWN_KEY = r"(?:Key|Option) '?([\w.]+)'? is not (?:expected|accepted)"
"""A configuration file has an unknown key: the key."""

NO_CLASS = r"Expected a dot import path string: (\S+)"
"""There is no class of this name: the name."""

NO_SUBCLASS = r"(?:Not a valid subclass of|does not correspond to a subclass of) (\w+)"
"""A class, or what stands for one, is not of the right kind: the name of the base class."""

BAD_VALUE = r"[Pp]arser key .*(?:Got|Given) value:"
"""A value has the wrong type; the details are found with the patterns below."""

CLASS_PROBLEM = r"Problem with given class_path '([\w.]+)':\s*\n((?: {6,}[^\n]*\n?)+)"
"""A class cannot be made: its path, and the reason with the lines below it."""

FACTORY_PROBLEM = r"expects a function or a callable class: (.*?)\.? Got value: ([^\n]*)"
"""A class that makes something later is refused: why, and what was given."""

LINK_PROBLEM = r"Call to compute_fn of link .*? failed: (.*)"
"""A value that follows from others cannot be computed: why."""

MISSING_INIT_ARG = r"the following arguments are required: ([\w, ]+)"
"""A class needs more arguments: their names, in the reason of `CLASS_PROBLEM`."""

MISSING = r"arguments are required: (model|data)"
"""Nothing was given for a part: the part."""

KEY = r"[Pp]arser key \"([\w.]+)\":"
"""The keys of a bad value, outermost first; what follows the innermost one is about the value."""

LITERAL = r"Expected a typing\.Literal\[(.*?)\]"
"""The values that a literal type allows, separated by a comma and a space."""

TYPE = r"Expected an? <class '(?:[\w.]+\.)?(\w+)'>"
"""A type that is allowed."""

VALUE = r"(?:Got|Given) value: (.*)"
"""The value that was given, in the first match."""

REASON = r"^\s*- (?!Expected a|Does not validate)(.*)$"
"""With ``re.MULTILINE``: why a class could not be instantiated, in the words of the class."""


def unwrapped(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Return a class with its arguments, whether a user made it or a command line.

    Undocumented: for an argument that is a protocol of factories, jsonargparse makes a `functools.partial` of functions
    of its own, and the class comes after them.
    """
    if not isinstance(factory, partial):
        return factory
    parts: list[Any] = [factory.func, *factory.args]
    if not _is_theirs(parts[0]):
        return factory
    while len(parts) > 1 and _is_theirs(parts[0]):
        parts.pop(0)
    return partial(parts[0], *parts[1:], **factory.keywords)


def _is_theirs(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == "jsonargparse"
