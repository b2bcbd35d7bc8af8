"""A pinned order holds for every plan that a race reports."""

from __future__ import annotations

from types import SimpleNamespace

from hetopt.cost.build import build_table
from hetopt.problem.reading import read_problem_text
from hetopt.solvers.race.messages import NO_CUTOFF, Found, Payload, RelaxedPlanTask
from hetopt.solvers.race.worker import Worker

NAMES = ("first", "second", "third", "fourth")
PROBLEM = """\
model: {{layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}}
clusters:
{clusters}
links: {{default: {{bandwidth: 100 Gbps, latency: 1 ms}}}}
training: {{global_batch: 8, seq_len: 1024, schedule: 1f1b}}
pin: {{order: [{order}], stages: 4}}
"""
CLUSTER = (
    "  - {{name: {name}, accelerator: {device}, nodes: 1, devices_per_node: 1,\n"
    "     inter_node: {{bandwidth: 100 Gbps, latency: 5 us}}}}"
)


def test_relaxed_optima_become_plans_in_the_pinned_order() -> None:
    devices = ("A100-80GB", "H100", "A40", "H20-96GB")
    clusters = "\n".join(
        CLUSTER.format(name=name, device=device)
        for name, device in zip(NAMES, devices, strict=True)
    )
    order = (NAMES[2], NAMES[0], NAMES[3], NAMES[1])
    text = PROBLEM.format(clusters=clusters, order=", ".join(order))
    problem = read_problem_text(text)
    table = build_table(problem)
    payload = Payload(
        problem=problem,
        table=table,
        engine="hetopt.solvers.dp.solver:DpEngine",
        seed=0,
        top=1,
    )
    found: list[Found] = []
    worker = Worker(payload, SimpleNamespace(value=NO_CUTOFF), found.append)
    for part in table.slices:
        q = part.microbatches
        worker.run(RelaxedPlanTask(microbatches=q, stages=4, period=float("inf")))
    assert found
    for each in found:
        names = tuple(table.cluster_names[j] for j in each.decision.order)
        assert names == order
