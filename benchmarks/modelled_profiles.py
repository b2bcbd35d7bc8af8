"""Write the modelled profiles that ship: ``python -m benchmarks.modelled_profiles``.

They contain what would be measured on a device if the roofline were exact, so that the
papers' devices, which we cannot measure, use the same code as measured ones. A cluster
whose latency is ``auto`` uses the roofline itself, which covers every shape; these
profiles are used only if they are named.

Run it after every change of the roofline; a test compares the shipped files with it.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hetopt.cost.profiles.file import PROFILE_SCHEMA, Profile, ProfileRow, write_profile
from hetopt.cost.profiles.units import shard_key
from hetopt.cost.shapes import Shape
from hetopt.cost.shard_shape import ATTENTION_CORE, MODEL_SIZES
from hetopt.cost.sources.baselines import one_device
from hetopt.cost.sources.roofline import Roofline
from hetopt.cost.sources.source import ShardQuery
from hetopt.problem.catalogue import accelerators
from hetopt.problem.model.kinds import LAYER
from hetopt.problem.model.model import Model
from hetopt.problem.training.training import Training

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.problem.cluster.accelerator import Accelerator

FOLDER = Path(__file__).parents[1] / "data" / "profiles"

#: Devices of the papers' experiments for which files ship. H2-Chip-D is not among
#: them, as no published value gives its computing rate.
SHIPPED = (
    "A100-80GB",
    "Ascend-A2-64GB",
    "H2-Chip-A",
    "H2-Chip-B",
    "H2-Chip-C",
    "H20-141GB",
    "H800",
)

HIDDEN = (2048, 4096, 8192)
SEQ_LEN = (4096, 8192, 32768)
MICROBATCH = (1, 4)
DEGREES = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (4, 1), (2, 4))
HEAD_DIM = 128
VOCAB = 32000
DTYPE = "bf16"

#: Significant digits of a time; more would only make files longer.
DIGITS = 6


class _Case(NamedTuple):
    """One shard to write."""

    model: Model
    cp: int
    tp: int
    microbatch: int
    seq_len: int


def modelled_profile(accelerator: Accelerator) -> Profile:
    """Return the profile of a device of the catalogue, from the roofline."""
    rows: dict[tuple[str | int, ...], ProfileRow] = {}
    for case in _cases():
        for row in _rows(accelerator, case):
            rows.setdefault(shard_key(row), row)
    efficiency = accelerator.roofline
    header = {
        "schema": PROFILE_SCHEMA,
        "kind": "modelled",
        "accelerator": accelerator.name,
        "source": (
            "hetopt.cost.sources.roofline: time = max(F / (peak e(F)), bytes / "
            "bandwidth) per operation, e(F) = e_max F / (F + peak ramp); "
            f"peak {accelerator.peak_flops_of('bf16') / 1e12:g} TFLOP/s, "
            "memory bandwidth "
            f"{accelerator.memory_bandwidth_bytes_per_s / 1e9:g} GB/s, e_max "
            f"{efficiency.multiplication:g} (attention {efficiency.attention:g}), ramp "
            f"{efficiency.ramp_s * 1e6:g} us, sustained {efficiency.sustained:g}"
        ),
        "notes": "written by python -m benchmarks.modelled_profiles; nothing was "
        "measured; e_max is read off published kernels, sustained is calibrated on "
        "published iterations (benchmarks/published.py)",
    }
    return Profile(header=header, rows=tuple(rows.values()))


def _cases() -> Iterator[_Case]:
    # Llama-2's proportions (full heads, ffn 8/3 of the hidden size) and Llama-3's
    # (8 key-value heads, ffn 7/2).
    for hidden, grouped in product(HIDDEN, (False, True)):
        heads = hidden // HEAD_DIM
        model = Model(
            name="modelled",
            layers=1,
            hidden=hidden,
            heads=heads,
            kv_heads=8 if grouped else heads,
            head_dim=HEAD_DIM,
            ffn=7 * hidden // 2 if grouped else -(-8 * hidden // 768) * 256,
            vocab=VOCAB,
        )
        for seq_len, microbatch, (cp, tp) in product(SEQ_LEN, MICROBATCH, DEGREES):
            yield _Case(model, cp, tp, microbatch, seq_len)


def _rows(accelerator: Accelerator, case: _Case) -> Iterator[ProfileRow]:
    training = Training(global_batch=1, seq_len=case.seq_len)
    shape = Shape.of([(case.microbatch, case.cp, case.tp)])
    times = Roofline().shard_times(
        ShardQuery(
            model=case.model,
            training=training,
            cluster=one_device(accelerator),
            kinds=(LAYER,),
            shape=shape,
        )
    )
    for unit, forward, backward in (
        (LAYER, times.forward_s, times.backward_s),
        (ATTENTION_CORE, times.attention_core_s, times.attention_core_backward_s),
    ):
        yield ProfileRow(
            unit=unit,
            gated=case.model.gated,
            dtype=DTYPE,
            **{field: getattr(case.model, field) for field in MODEL_SIZES},
            cp=case.cp,
            tp=case.tp,
            microbatch=case.microbatch,
            seq_len=case.seq_len,
            forward_s=_rounded(forward[0, 0]),
            backward_s=_rounded(backward[0, 0]),
            forward_spread_s=None,
            backward_spread_s=None,
            repetitions=0,
            status="ok",
        )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{DIGITS}g}")


def path_of(accelerator: str) -> Path:
    """Return where the profile of an accelerator ships."""
    return FOLDER / f"{accelerator.lower()}-modelled.csv"


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(exist_ok=True)
    for name in SHIPPED:
        profile = modelled_profile(accelerators()[name])
        write_profile(str(path_of(name)), profile)
        print(f"{path_of(name).name}: {len(profile.rows)} rows")


if __name__ == "__main__":
    main()
