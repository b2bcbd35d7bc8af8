"""draw: clusters, strategies and stages at random, units shared out by speed."""

from itertools import accumulate, pairwise
from random import Random

from hetopt.formulations.decision import Decision
from hetopt.solvers.registry import Solver
from hetopt.solvers.unproven.finds import solve_by


def search(finds):
    """Offer a few thousand plans."""
    draw, chain = Random(finds.request.seed), finds.chain
    for _ in range(3000):
        finds.check_time()
        part = draw.choice(finds.table.slices)
        able = [j for j, own in enumerate(part.clusters) if own.strategies]
        order = draw.sample(able, draw.randint(1, len(able)))
        rows = [draw.randrange(len(part.clusters[j].strategies)) for j in order]
        hosts = [(part.clusters[j], k) for j, k in zip(order, rows, strict=True)]
        hosted = [draw.randint(1, int(own.max_stages[k])) for own, k in hosts]
        if sum(hosted) not in finds.problem.stage_counts:
            continue
        each = [(own.forward_ns + own.backward_ns)[k].sum() for own, k in hosts]
        speeds = [1 / each[i] for i, count in enumerate(hosted) for _ in range(count)]
        ends = [round(chain.length * done / sum(speeds)) for done in accumulate(speeds)]
        units = [end - first for first, end in pairwise([0, *ends])]
        if min(units) < 1:
            continue
        units[0] += sum(chain.lead)
        units[-1] += sum(chain.trail)
        strategies = tuple(own.strategies[k] for own, k in hosts)
        finds.offer(
            Decision(
                microbatches=part.microbatches,
                order=tuple(order),
                strategies=strategies,
                hosted=tuple(hosted),
                units=tuple(units),
            )
        )


def solve(request):
    """Return the best of a few thousand plans."""
    return solve_by(search, request, solver="draw")


SOLVER = Solver(name="draw", home=solve)

# The code above is the module of docs/how-to/write-a-solver.md; the code below uses it.


def main():
    """Register the solver, and compare its plan with the proven optimum."""
    from hetopt import RaceParams, build_table, read_problem
    from hetopt.base.deadline import Deadline
    from hetopt.problem.catalogue import problem_files
    from hetopt.solvers.loading import load
    from hetopt.solvers.registry import register_solver
    from hetopt.solvers.request import Request

    register_solver(SOLVER)
    problem = read_problem(str(problem_files()["hetauto-exp1"]))
    table = build_table(problem)
    for name in ("draw", "cp-sat"):
        request = Request(
            problem=problem,
            table=table,
            params=RaceParams(jobs=0),
            deadline=Deadline.after(60),
        )
        result = load(name)(request)
        print(f"{name}: {result.status}, {result.best.closed_form_s:.3f} s")


if __name__ == "__main__":
    main()
