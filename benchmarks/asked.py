"""What the race asks an engine, without an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from hetopt.formulations.program import ProgramData

#: For ``Payload.engine``.
ENGINE = "benchmarks.asked:Asker"


class Asked(Exception):
    """An engine would have been asked to settle this program.

    Attributes
    ----------
    data
        The program, within its cutoff and narrowed.
    """

    def __init__(self, data: ProgramData) -> None:
        super().__init__()
        self.data = data


class Asker:
    """An Engine that hands every program back to whoever started the worker."""

    def __init__(self, seed: int) -> None:
        """Take the seed that every engine is made from."""

    def settle(self, data: ProgramData, **_: object) -> NoReturn:
        raise Asked(data)
