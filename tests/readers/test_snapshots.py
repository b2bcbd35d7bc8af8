"""Every single change of a file is read, or refused in a line that names the field."""

from __future__ import annotations

import pytest

from tests.readers import answers, problems, tables
from tests.readers.reader import Reader, check

READERS = (*problems.READERS, *answers.READERS, *tables.READERS)


@pytest.mark.parametrize("reader", READERS, ids=lambda each: each.name)
def test_every_change_is_told(reader: Reader) -> None:
    check(reader)
