"""Pin decisions, plan again, and name the decisions in which the two plans differ."""

from dataclasses import replace

import hetopt
from hetopt import Problem
from hetopt.export.back.differences import changes
from hetopt.problem.example import EXAMPLE
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from hetopt.results.priced_plan import PricedPlan


def main() -> None:
    """Plan with one stage of tp 8 pinned on every cluster, and without pins."""
    problem = read_problem_text(EXAMPLE)
    wide = ClusterPins(tp=only(8), stages=only(1))
    pins = Pins(clusters={cluster.name: wide for cluster in problem.clusters})
    pinned = best(replace(problem, pins=pins))
    free = best(problem)
    times_s = pinned.iteration_time_s, free.iteration_time_s
    print("pinned {:.3f} s, free {:.3f} s".format(*times_s))
    for change in changes(pinned.plan, free.plan):
        where = f" on {change.cluster}" if change.cluster else ""
        print(f"{change.what}{where}: {change.before} -> {change.after}")


def only(value: int) -> Domain:
    """Return a domain that permits only one value."""
    return Domain(allowed=frozenset({value}))


def best(problem: Problem) -> PricedPlan:
    """Return the proven best plan."""
    result = hetopt.plan(problem)
    assert result.best is not None
    assert result.status == "optimal"
    return result.best


if __name__ == "__main__":
    main()
