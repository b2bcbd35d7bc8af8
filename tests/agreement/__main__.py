"""Compare single instances: ``python -m tests.agreement SEED [SEED ...]``.

With ``--simulated`` each asks for the least simulated time.
"""

from __future__ import annotations

import argparse
import time

from tests.agreement.answers import answer_to
from tests.agreement.comparing import Comparison
from tests.agreement.generator import features_of, in_simulated_time, make


def main(seeds: list[int], *, simulated: bool) -> int:
    wrong = 0
    for seed in seeds:
        features = in_simulated_time(seed) if simulated else features_of(seed)
        began = time.process_time()
        instance = make(features)
        answer = answer_to(features, instance)
        comparison = Comparison(features, instance, answer)
        findings = list(comparison.findings())
        wrong += bool(findings)
        spent_s = time.process_time() - began
        print(f"{features}: {answer.plans} plans, {spent_s:.2f} s")
        print(f"  {', '.join(comparison.solvers())}")
        print("".join(f"  {each[:600]}\n" for each in findings), end="", flush=True)
    return min(wrong, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument(
        "--simulated",
        action="store_true",
        help="ask each for the least simulated time",
    )
    chosen = parser.parse_args()
    raise SystemExit(main(chosen.seeds, simulated=chosen.simulated))
