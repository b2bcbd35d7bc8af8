"""How results look: a line in a shell, a report in print, tables in a notebook."""

from __future__ import annotations


class Shown:
    """Looks as ``hetopt.report`` says, which is loaded when something is shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        from hetopt.report.showing import line

        return line(self)

    def __str__(self) -> str:
        from hetopt.report.showing import text

        return text(self)

    def _repr_html_(self) -> str:
        from hetopt.report.showing import notebook

        return notebook(self)
