"""Write the modelled profiles that ship: ``python -m benchmarks.modelled_profiles``.

To be run after every change of the roofline; a test compares what ships with it.
"""

from __future__ import annotations

from pathlib import Path

from hetopt.cost.modelled_profile import SHIPPED, modelled_profile
from hetopt.cost.profile_table import write_profile
from hetopt.problem.catalogue import accelerators

FOLDER = Path(__file__).parents[1] / "data" / "profiles"


def path_of(accelerator: str) -> Path:
    """Return where the profile of an accelerator ships."""
    return FOLDER / f"{accelerator.lower()}-modelled.csv"


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(exist_ok=True)
    for name in SHIPPED:
        profile = modelled_profile(accelerators()[name])
        write_profile(str(path_of(name)), profile)
        print(f"{path_of(name).name}: {len(profile.rows)} rows")


if __name__ == "__main__":
    main()
