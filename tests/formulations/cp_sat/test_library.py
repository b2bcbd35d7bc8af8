"""OR-Tools without pandas, until somebody needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SERIES = """
variables = cp_model.CpModel().new_bool_var_series("x", cp_model.pd.Index([1, 2]))
import pandas
assert isinstance(variables, pandas.Series) and cp_model.pd.Index is pandas.Index
"""


@pytest.mark.parametrize(
    ("more", "loaded"),
    [
        ("", False),
        (_SERIES, True),
        # What else it may name while it is imported.
        (
            "library._NAMED = (); del sys.modules[cp_model.__name__]; library.load()",
            True,
        ),
    ],
)
def test_pandas_is_loaded_where_it_is_needed(more: str, loaded: bool) -> None:
    code = (
        "import sys\n"
        "from hetopt.formulations.cp_sat import library, program\n"
        "from ortools.sat.python import cp_model\n"
        "assert 'pandas' not in sys.modules\n"
        f"{more}\n"
        "module = sys.modules.get('pandas')\n"
        f"assert (module is not None and bool(module.__file__)) is {loaded}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
