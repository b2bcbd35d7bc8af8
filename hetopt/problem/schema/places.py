"""Where the fields of a problem file belong, for one that stands at another depth."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from hetopt.base.record import keys
from hetopt.base.words import closest, suggest
from hetopt.problem.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


#: A name that is less alike is no hint at a field elsewhere: there are many.
_ALIKE = 0.8
#: A section that a command writes, so that nobody means its fields.
_WRITTEN = "calibration"
#: Most places that are named.
_MOST = 3


def meant(name: str, here: Iterable[str], section: str) -> str:
    """Return `` (did you mean 'x'?)``, or nothing if no field is near.

    Parameters
    ----------
    name
        A key that is no field where it stands.
    here
        The fields that the mapping around it has.
    section
        Section of the problem in which it stands; empty at the top level.
    """
    known = places()
    near = suggest(name, here)
    other = name if name in known else closest(name, known, _ALIKE)
    if other is None or (near and other != name):
        return near
    paths = known[other]
    if other in paths:
        return f" (did you mean {other!r} at the top level?)"
    inside = [path for path in paths if path.startswith((f"{section}.", f"{section}["))]
    paths = inside or paths
    least = min(path.count(".") for path in paths)
    shown = [repr(path) for path in paths if path.count(".") == least]
    return f" (did you mean {' or '.join(shown[:_MOST])}?)"


@cache
def places() -> Mapping[str, Sequence[str]]:
    """Return the paths of every field by its name, in the order of the sections."""
    found: dict[str, list[str]] = {}
    waiting: list[tuple[str, type]] = [("", Problem)]
    for path, spec in waiting:
        for name, info in keys(spec).items():
            own = f"{path}{name}"
            found.setdefault(name, []).append(own)
            if name != _WRITTEN:
                listed: Any = [x.items for x in info.metadata if hasattr(x, "items")]
                below = _specs(info.annotation, own)
                if listed:
                    below = _specs(listed[0], f"{own}[]")
                waiting += [(f"{inside}.", inner) for inside, inner in below]
    return MappingProxyType(found)


def _specs(kind: Any, path: str) -> Iterator[tuple[str, type]]:
    """Yield the mappings that a field of this type may hold, with their paths."""
    if hasattr(kind, "__pydantic_fields__"):
        yield path, kind
        return
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        parts = parts[:1]
    elif origin is Mapping and parts[0] is str:
        path += ".NAME"
    elif origin not in (Union, UnionType):
        path += "[]"
    for part in parts:
        yield from _specs(part, path)
