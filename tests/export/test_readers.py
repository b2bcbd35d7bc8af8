"""A bundle is recognised by the launcher that wrote it, and by no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetopt.errors import InputError
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.launchers import LAUNCHERS, launcher, reader, readers
from tests.export.jobs import as_llama, draw_job


@pytest.mark.parametrize("name", LAUNCHERS)
def test_whose_a_bundle_is_can_be_told(name: str, tmp_path: Path) -> None:
    one = launcher(name)
    job = next(
        job
        for job in (
            as_llama(draw_job(seed, alike=True, cp=False)) for seed in range(200)
        )
        if all(loss.instead is not None for loss in one.losses(job))
    )
    folder = tmp_path / "out"
    write_folder(str(folder), bundle(job, one, allow_lossy=True))
    if name in readers():
        assert reader(folder, None) is readers()[name]
        return
    with pytest.raises(InputError, match="is of no known launcher"):
        reader(folder, None)
