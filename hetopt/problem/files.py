"""What a problem names: files, which whoever reads it finds, and the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.base.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _nothing(*_: str) -> Any:
    raise Fault("names a file, and there is none here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Readers of the files that sections name; Fault or InputError if there is none.

    Attributes
    ----------
    config
        Reads the config.json that ``model.hf_config`` names into model fields.
    accelerators
        Returns the devices that have names.
    software
        Returns the stacks of software that have names.
    name
        Of a problem without one.
    profile
        Returns the latency source for a cluster's name and the file's text.
    shares
        Reads the histogram that ``training.lengths`` names.
    """

    config: Callable[[str], Mapping[str, Any]] = _nothing
    accelerators: Callable[[], Mapping[str, Any]] = _nothing
    software: Callable[[], Mapping[str, Any]] = _nothing
    name: str = "problem"
    profile: Callable[[str, str], str] = _nothing
    shares: Callable[[str], Mapping[int, float]] = _nothing


#: For data that names no files.
NO_FILES = Files()
