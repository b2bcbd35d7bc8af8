"""What Megatron-LM's arguments say of the order of virtual stages.

Source: megatron-core 0.16.1, ``pipeline_parallel/schedules.py``: the table of passes
(``get_schedule_table``), warm-ups (``get_pp_rank_microbatches``), and what it refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.export.understood import not_priced
from hetopt.results.reported import Reported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetopt.export.pipeline import PipelineReadBack
    from hetopt.export.shared.shell.arguments import ShellArguments

#: Micro-batches that a stage runs on a chunk before it goes on to the next.
GROUP = "microbatch_group_size_per_virtual_pipeline_stage"


def chunk_notes(
    arguments: ShellArguments,
    pipeline: PipelineReadBack,
    spelled: Callable[[str], str] = str,
) -> Iterator[Reported]:
    """Yield a report if stages run chunks in an order that hetopt does not model.

    Raises
    ------
    InputError
        Megatron-core would refuse it.
    """
    p, q, chunks = len(pipeline.stages), pipeline.microbatches, pipeline.chunks
    if chunks == 1:
        return
    group = arguments.count(GROUP, p)
    if group == p:
        return
    if not p <= group <= q:
        msg = f"is {group}, expected {p} (the stages) to {q} (the micro-batches)"
        raise arguments.wrong(GROUP, msg)
    if 0 < q % group < p:
        msg = (
            f"is {group}, which leaves a last group of {q % group} of the {q} "
            f"micro-batches, expected none or at least {p}, the stages"
        )
        raise arguments.wrong(GROUP, msg)
    more = (chunks - 1) * (group - p)
    why = (
        f"is {group}: hetopt models the order of groups of {p}, one micro-batch for "
        f"each stage; with {group} stages run their chunks in another order, and hold "
        f"the activations of up to {counted(more, 'more pass', 'es')}"
    )
    yield not_priced(spelled(GROUP), why)
