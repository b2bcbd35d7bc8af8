"""Every single change of a file is read, or refused in a line that names the field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.readers import answers, configs, problems, tables, times
from tests.readers.reader import Reader, check

if TYPE_CHECKING:
    from pathlib import Path

MODULES = (problems, configs, answers, tables, times)
READERS = [reader for module in MODULES for reader in module.READERS]


@pytest.mark.parametrize("reader", READERS, ids=lambda each: each.name)
def test_every_change_is_told(reader: Reader, tmp_path: Path) -> None:
    check(reader, tmp_path)
