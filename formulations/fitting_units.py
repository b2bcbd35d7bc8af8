"""How many units fit on a stage, by its warm-up count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.schedule.schedules import MAX_DELTA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.formulations.chain import Chain
    from hetopt.formulations.paths import Simulated
    from hetopt.schedule.schedules import ScheduleRule


def units_by_warmup(
    cluster: ClusterTable,
    chain: Chain,
    rule: ScheduleRule,
    usable_bytes: int,
    microbatches: int,
    simulated: Simulated | None,
) -> NDArray[np.int64]:
    """Return the body units that fit beside each end, for every W; (K, ends * W).

    Parameters
    ----------
    chain
        Chain whose body units are all alike.
    simulated
        Plans to consider; None for all.
    """
    (f,) = chain.kinds
    most = min(microbatches, MAX_DELTA * chain.length)
    if simulated is not None:
        most = min(most, 1 + rule.most_across * (simulated.stages - 1))
    warmups = np.arange(1, most + 1)
    if rule.all_first:
        warmups = np.array([microbatches])
    columns = []
    for ends in (
        np.zeros(len(chain.lead), dtype=np.int64),
        np.array(chain.lead),
        np.array(chain.trail),
        np.array(chain.lead) + np.array(chain.trail),
    ):
        present = ends > 0
        present[f] = True
        temporary = cluster.temporary_bytes[:, present].max(axis=1, initial=0)
        state = cluster.state_bytes @ ends
        activation = cluster.activation_bytes @ ends
        room = (
            usable_bytes
            - (cluster.fixed_bytes + temporary + state)[:, None]
            - activation[:, None] * warmups
        )
        unit = (
            cluster.state_bytes[:, f, None]
            + cluster.activation_bytes[:, f, None] * warmups
        )
        columns.append(np.minimum(room // np.maximum(unit, 1), chain.length))
    units: NDArray[np.int64] = np.maximum(np.hstack(columns), 0)
    if simulated is not None:
        # Alone, more units than these take longer than the limit.
        longest = simulated.limit_ns // microbatches
        units = np.minimum(
            units, longest // np.maximum(cluster.round_trip_ns[:, f, None], 1)
        )
    return units
