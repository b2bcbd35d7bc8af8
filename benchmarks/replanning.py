"""Hetu v2's reconfiguration from C1 to C2: moves compared with its Table 2.

One of 32 H20 is lost (R31). Both plans are the published ones (Appendix A, Table 7):
C1 has two pipelines of four stages; C2 has the same first one, and a second one with
stages of 4, 4, 4, 2 and 1 devices. The widths of the model are assumed, so volumes are
compared in quarters of one layer's states, the part of a layer that a device of a stage
of four holds.

    python -m benchmarks.replanning

Then hetopt itself plans again after C1, for 1,000 iterations with up to two pipelines.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hetopt.cost.communication.migration import Network
from hetopt.planning.asked import Search
from hetopt.planning.posed import Posed
from hetopt.plans.plan import Pipeline, Plan, Share, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.reading import read_problem_text
from hetopt.replanning.candidates import Searched
from hetopt.replanning.holdings import States, Tensor
from hetopt.replanning.layouts import layout_of
from hetopt.replanning.moves import moves_between
from hetopt.replanning.nodes import nodes_of, without
from hetopt.replanning.replan import Change, Replanning

if TYPE_CHECKING:
    from hetopt.problem.cluster.nodes import Device
    from hetopt.problem.problem import Problem
    from hetopt.replanning.moves import Moves
    from hetopt.replanning.replan import Replanned

#: The paper's testbed has 400 Gbps between nodes.
PROBLEM = """\
model: {{preset: hetu-llama-32b}}
clusters:
  - {{name: h20, accelerator: H20-96GB, nodes: {nodes},
     inter_node: {{bandwidth: 400 Gbps, latency: 5 us}}}}
training: {{global_batch: 64, seq_len: 4096, zero: 0, schedule: 1f1b}}
"""
#: R31.
LOST = "h20/3:7"
#: Published: Table 2, fused; by sender, MB inside its node and to other nodes.
FUSED = {
    **dict.fromkeys((8, 9, 10, 11), (0, 747)),
    15: (0, 11496),
    **dict.fromkeys((20, 21, 22, 23), (748, 0)),
    **dict.fromkeys((24, 25, 26, 27), (0, 748)),
    28: (5517, 0),
    29: (11496, 0),
    30: (8222, 0),
}
#: One quarter of a layer in that table: R4 to R7 send one each, unfused.
QUARTER_MB = 747.5
#: Devices and layers of each stage: of both pipelines of C1 and the first of C2, and of
#: the second one of C2.
FIRST = ((4, 15), (4, 15), (4, 15), (4, 15))
SECOND_C2 = ((4, 16), (4, 16), (4, 16), (2, 8), (1, 4))


def pipeline(
    stages: tuple[tuple[int, int], ...],
    batch: int,
    nodes: tuple[int, ...],
    sequences: int = 1,
) -> Pipeline:
    """Return a pipeline whose stages have one tensor-parallel group each.

    Parameters
    ----------
    stages
        Devices and layers of each.
    sequences
        Sequences of a micro-batch.
    """
    found, unit = [], 0
    for number, (devices, layers) in enumerate(stages):
        # The embedding belongs to the first stage, the head to the last one.
        end = unit + layers + (number == 0) + (number == len(stages) - 1)
        found.append(
            Stage(
                cluster="h20",
                first_unit=unit,
                end_unit=end,
                strategy=Strategy(dp=1, cp=1, tp=devices),
                warmup=len(stages) - number,
                resharding=None if number == len(stages) - 1 else "p2p",
            )
        )
        unit = end
    share = Share(batch=batch, nodes={"h20": nodes})
    return Pipeline(microbatches=batch // sequences, stages=tuple(found), share=share)


def plan(*pipelines: Pipeline) -> Plan:
    """Return a plan with devices but without prices."""
    return Plan(
        schedule="1f1b", pipelines=pipelines, problem_digest="", table_digest=""
    )


def problem(nodes: tuple[int, ...]) -> Problem:
    """Return the problem of the paper's fleet, with these devices in its nodes."""
    return read_problem_text(PROBLEM.format(nodes=list(nodes)))


def moves() -> tuple[Moves, States]:
    """Return the moves from C1 to C2."""
    before, after = problem((8, 8, 8, 8)), problem((8, 8, 8, 7))
    old = plan(*[pipeline(FIRST, 32, (8, 8), sequences=2)] * 2)
    new = plan(pipeline(FIRST, 33, (8, 8)), pipeline(SECOND_C2, 31, (8, 7)))
    states = States.of(before, (old, new))
    nodes = nodes_of(before)
    left = without(nodes, [LOST])
    known = {node.device(n) for node in left for n in range(len(node.devices))}
    held = states.held(old, layout_of(before, old, nodes))
    held = {device: own for device, own in held.items() if device in known}
    needed = states.held(new, layout_of(after, new, left))
    return moves_between(held, needed, states, Network(after, left, None)), states


def largest_sender(found: Moves, states: States) -> tuple[float, float]:
    """Return quarters of layers, and of the head, that the largest sender sends."""
    sizes: dict[Device | None, list[float]] = defaultdict(lambda: [0.0, 0.0])
    head = len(states.problem.model.units) - 1
    for move in found.rows:
        unit = move.slice.tensor.unit
        of_quarter = move.bytes / quarter_bytes(states, head if unit == head else 1)
        sizes[move.sender][unit == head] += of_quarter
    layers, rest = max(sizes.values())
    return layers, rest


def quarter_bytes(states: States, unit: int = 1) -> float:
    """Return the bytes of a quarter of a unit's states that tensor ranks split."""
    numbers = states.sizes(unit).split / 4
    return numbers * sum(
        states.bytes_of(Tensor(unit, "dense", state))
        for state in ("weights", "optimizer")
    )


def replanned(iterations: int) -> Replanned:
    """Return hetopt's own plan after C1."""
    before, after = problem((8, 8, 8, 8)), problem((8, 8, 8, 7))
    nodes = nodes_of(before)
    asked = Search(problem=after, solver="dp", time="closed", pipelines=2, jobs=1)
    posed = Posed.of(asked)
    change = Change(
        problem=before,
        plan=plan(*[pipeline(FIRST, 32, (8, 8), sequences=2)] * 2),
        before=nodes,
        after=without(nodes, [LOST]),
        iterations=iterations,
        restart_s=0.0,
        checkpoint_bytes_per_s=None,
    )
    searched = Searched(posed=posed, request=posed.request())
    return Replanning(change, searched, lambda line: None).run()


def main() -> None:
    """Print the volumes and the published ones, then hetopt's own plan."""
    found, states = moves()
    quarter = quarter_bytes(states)
    print("| sender | hetopt | Hetu v2, fused |")
    print("|---|--:|--:|")
    ours = {
        8 * (int(name.rpartition("-")[2].partition(":")[0]) - 1)
        + int(name.rpartition(":")[2]): sum(sizes) / quarter
        for name, sizes in found.sent.items()
    }
    for rank in sorted(ours.keys() | FUSED.keys()):
        theirs = sum(FUSED.get(rank, (0, 0))) / QUARTER_MB
        print(f"| R{rank} | {ours.get(rank, 0):.2f} | {theirs:.2f} |")
    published = sum(map(sum, FUSED.values())) / QUARTER_MB
    print(f"| all | {found.bytes / quarter:.2f} | {published:.2f} |")
    layers, head = largest_sender(found, states)
    print(f"\nlargest sender: {layers:.2f} quarters of layers, {head:.2f} of the head")
    print(f"{found.bytes / 1e9:.1f} GB in {found.seconds:.3f} s at least\n")
    own = replanned(1_000)
    for each in own.candidates:
        print(
            f"{each.priced.closed_form_s:.4f} s an iteration, "
            f"{each.moves.bytes / 1e9:.1f} GB in {each.moves.seconds:.3f} s"
        )
    print(f"gap of 1,000 iterations: {own.gap:.4%}")


if __name__ == "__main__":
    main()
