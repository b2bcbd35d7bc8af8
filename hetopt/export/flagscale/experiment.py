"""Finds FlagScale's experiment and its training settings in a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.base.reading import is_there
from hetopt.base.words import describe
from hetopt.export.shared.settings import Settings, load_settings, wrong_folder

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.errors import InputError

#: Parts of the training settings that become arguments, in this order.
_PARTS = ("system", "model", "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """An experiment, or training settings alone.

    Attributes
    ----------
    folder
        The folder that relative paths may start from.
    settings
        Those under ``experiment``; None if there are only training settings.
    train
        The arguments that FlagScale makes of the training settings.
    """

    folder: Path
    settings: Settings | None
    train: Settings

    def section(self, name: str) -> dict[str, Any]:
        """Return a section of the experiment as it is; empty if there is none."""
        data = self.settings.under(name).data if self.settings else None
        return data if isinstance(data, dict) else {}

    def hostfile(self) -> str | None:
        """Return the name of the hostfile; None if the experiment has none."""
        found = self.section("runner").get("hostfile", "hostfile")
        if not isinstance(found, str | None):
            raise self._wrong(
                "hostfile", f"is {describe(found)}, expected a file's name"
            )
        return found

    def nodes(self) -> int | None:
        """Return the first of ``nnodes``, which FlagScale takes; None if left out."""
        found = self.section("runner").get("nnodes")
        match = re.fullmatch("([1-9][0-9]{0,8})(:[0-9]{1,9})?", str(found))
        if found is not None and match is None:
            msg = f"is {describe(found)}, expected a whole number of at least 1"
            raise self._wrong("nnodes", msg)
        return None if match is None else int(match[1])

    def _wrong(self, name: str, message: str) -> InputError:
        assert self.settings is not None
        return self.settings.under("runner").wrong(name, message)


def find_experiment(folder: Path) -> Experiment:
    """Find the one experiment of a folder, in it or in its ``conf``.

    Raises
    ------
    InputError
        There is none or more than one, or its training settings are missing.
    """
    homes = [home for home in (folder, folder / "conf") if home.is_dir()]
    files = [
        (home, load_settings(path))
        for home in homes
        for path in sorted(home.glob("*.yaml"))
    ]
    experiments = [
        (home, file)
        for home, file in files
        if isinstance(file.data, dict) and "experiment" in file.data
    ]
    if len(experiments) == 1:
        home, file = experiments[0]
        return Experiment(
            folder=folder,
            settings=file.under("experiment"),
            train=_train(home, file).joined(*_PARTS),
        )
    if experiments:
        names = " and ".join(file.file for _, file in experiments)
        msg = (
            f"holds several experiments, {names}: put the one you mean into its own "
            "folder"
        )
        raise wrong_folder(folder, msg)
    trains = [file for _, file in files if _is_train(file)]
    for home in homes:
        paths = sorted((home / "train").glob("*.yaml"))
        trains += filter(_is_train, map(load_settings, paths))
    if len(trains) != 1:
        what = "several training parts" if trains else "no experiment of FlagScale"
        msg = f"holds {what}, expected one YAML file with `experiment`"
        raise wrong_folder(folder, msg)
    return Experiment(folder=folder, settings=None, train=trains[0].joined(*_PARTS))


def _train(home: Path, experiment: Settings) -> Settings:
    """Return the training settings that an experiment names."""
    defaults = experiment.get("defaults")
    for item in defaults if isinstance(defaults, list) else []:
        if isinstance(item, dict) and isinstance(item.get("train"), str | int):
            path = home / "train" / f"{item['train']}.yaml"
            if not is_there(path):
                msg = (
                    f"names {describe(item['train'])}, but there is no such YAML file "
                    f"in {home / 'train'}"
                )
                raise experiment.wrong("defaults", msg)
            return load_settings(path)
    if isinstance(experiment.get("train"), dict):
        return experiment.part("train")
    raise experiment.wrong(
        "defaults", "does not name training settings, expected {train: NAME}"
    )


def _is_train(file: Settings) -> bool:
    return isinstance(file.get("system"), dict)
