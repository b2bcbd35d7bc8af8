"""Compare the gain from another node with that from a faster link between clusters."""

from dataclasses import replace

import hetopt
from hetopt import Problem
from hetopt.problem.example import EXAMPLE
from hetopt.problem.reading import read_problem_text


def main() -> None:
    """Plan the example of ``hetopt init``, and two variants of it."""
    today = read_problem_text(EXAMPLE)
    variants = {
        "today": today,
        "another node of h20": with_nodes(today, "h20", 2),
        "a link ten times as fast": with_links(today, 10),
    }
    times = {name: best_time(problem) for name, problem in variants.items()}
    for name, time in times.items():
        print(f"{name}: {time:.3f} s, {times['today'] / time:.2f} x as fast")


def with_nodes(problem: Problem, name: str, nodes: int) -> Problem:
    """Return the problem with another number of nodes in one cluster."""
    clusters = tuple(
        replace(cluster, nodes=nodes) if cluster.name == name else cluster
        for cluster in problem.clusters
    )
    return replace(problem, clusters=clusters)


def with_links(problem: Problem, factor: float) -> Problem:
    """Return the problem with more bandwidth between its clusters."""
    link = problem.links.default
    assert link is not None
    assert link.capacity_bytes_per_s is not None
    faster = replace(link, capacity_bytes_per_s=factor * link.capacity_bytes_per_s)
    return replace(problem, links=replace(problem.links, default=faster))


def best_time(problem: Problem) -> float:
    """Return the least time of an iteration, in seconds."""
    result = hetopt.plan(problem)
    assert result.best is not None
    return result.best.iteration_time_s


if __name__ == "__main__":
    main()
