# SPDX-License-Identifier: Apache-2.0
"""The nearest valid spelling of an invalid name.

Only wrong input needs `difflib`, so it is imported for the first mistake.
"""

from collections.abc import Iterable

MAX_LENGTH = 80
"""The length limit of a misspelling; the comparison is quadratic."""


def nearest(name: str, names: Iterable[str], cutoff: float = 0.7) -> str | None:
    """The name of `names` that is most similar to `name`, ignoring case; None if none is similar."""
    if len(name) > MAX_LENGTH:
        return None
    from difflib import get_close_matches

    by_lower = {known.lower(): known for known in sorted(names, reverse=True)}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A hint with the nearest name; without one, all the names, if they are few."""
    known = sorted(names)
    near = nearest(name, known)
    if near is not None:
        return f"did you mean `{near}`?"
    if not known or len(known) > 12:
        return ""
    return "known here: " + ", ".join(known)


def likeness(one: str, other: str) -> float:
    """The similarity of two names, 0 to 1, ignoring case."""
    if len(one) > MAX_LENGTH:
        return 0.0
    from difflib import SequenceMatcher

    return SequenceMatcher(None, one.lower(), other.lower()).ratio()
