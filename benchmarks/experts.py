"""Measured iterations of a model with experts against ours; nothing is fitted on them.

Run with ``python -m benchmarks.experts``. The runs are SimuMax's of DeepSeek-V2 with
Megatron-LM on 8 B200 (``data/iterations/simumax-b200.csv``): four layers, the first one
dense, 160 experts over 8 and over 4 ranks. Times are sums of measured operators with
the shipped shares, which were fitted to other models (``benchmarks.iterations``).
"""

from __future__ import annotations

from statistics import mean

from benchmarks.iterations import FAR, on_b200
from benchmarks.measured_runs import deepseek_rows
from benchmarks.memory import EXPERTS_ERROR, MEASURED_BELOW, measured_peaks

#: Limit of the mean absolute error of times; no single one may exceed ``FAR``.
MEAN_LIMIT = 0.10


def times() -> list[tuple[str, float, float]]:
    """Return name, measured seconds and modelled seconds of every case."""
    figures = [on_b200(row, model) for row, model in deepseek_rows()]
    return [(each.name, each.published_s, each.seconds()) for each in figures]


def main() -> None:
    """Print every run, and whether the limits hold."""
    peaks = {case: (measured, ours) for case, measured, ours in measured_peaks()}
    print("| run | measured ms | ours | error | measured GiB | ours | error |")
    print("|---|---|---|---|---|---|---|")
    errors, sizes = [], []
    for case, measured_s, ours_s in times():
        measured, ours = peaks[case]
        errors.append(ours_s / measured_s - 1)
        sizes.append(ours / measured - 1)
        print(
            f"| {case} | {measured_s * 1e3:.1f} | {ours_s * 1e3:.1f} "
            f"| {errors[-1]:+.1%} | {measured:.2f} | {ours:.2f} | {sizes[-1]:+.1%} |"
        )
    off, worst = mean(map(abs, errors)), max(map(abs, errors))
    close = off <= MEAN_LIMIT and worst <= FAR
    fits = min(sizes) >= -MEASURED_BELOW and max(sizes) <= EXPERTS_ERROR
    print(
        f"times: mean {off:.1%}, at most {MEAN_LIMIT:.0%}; worst {worst:.1%}, at most "
        f"{FAR:.0%}{'' if close else ' MISSED'}; memory: {min(sizes):+.1%} to "
        f"{max(sizes):+.1%}, at most {EXPERTS_ERROR:+.0%}{'' if fits else ' MISSED'}"
    )


if __name__ == "__main__":
    main()
