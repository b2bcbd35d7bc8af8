"""Compare single instances: ``python -m tests.agreement SEED [SEED ...]``."""

from __future__ import annotations

import sys
import time

from tests.agreement.answers import answer_to
from tests.agreement.comparing import Comparison
from tests.agreement.generator import features_of, make


def main(seeds: list[int]) -> int:
    wrong = 0
    for seed in seeds:
        features, began = features_of(seed), time.process_time()
        instance = make(features)
        answer = answer_to(features, instance)
        comparison = Comparison(features, instance, answer)
        findings = list(comparison.findings())
        wrong += bool(findings)
        spent_s = time.process_time() - began
        print(f"{features}: {answer.plans} plans, {spent_s:.2f} s")
        print(f"  {', '.join(comparison.solvers())}")
        print("".join(f"  {each[:600]}\n" for each in findings), end="", flush=True)
    return wrong


if __name__ == "__main__":
    raise SystemExit(main([int(seed) for seed in sys.argv[1:]]))
