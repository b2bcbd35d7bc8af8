"""Choices of training: precisions, schedules, recomputation, resharding."""

from __future__ import annotations

from typing import Any, Literal, get_args

Precision = Literal["bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4"]
Emulated = Literal["fp32"]
Gradients = Literal["fp32", "bf16"]
Kernel = Literal["fused", "unfused"]
Optimizer = Literal["adam", "sgd"]
Recompute = Literal[
    "none",
    "selective",
    "full",
    "per-operator",
    "layernorm",
    "mlp",
    "moe_act",
    "mla_up_proj",
    "moe",
    "shared_experts",
]
ScheduleName = Literal[
    "1f1b",
    "1f1b-batched",
    "1f1b-blocking",
    "eager-1f1b",
    "virtual-1f1b",
    "h-1f1b",
    "interleaved-1f1b",
    "zb-h1",
    "zb-v",
    "v-half",
    "v-min",
    "gpipe",
    "free-1f1b",
]
#: What may be asked for in place of a schedule.
AskedSchedule = ScheduleName | Literal["auto"]
Resharding = Literal["p2p", "leader", "inner-dp", "send-recv-all-gather"]

#: Precisions in which only the layers multiply, beside bf16 for everything else, with
#: the formats that a device needs for them. Scales of blocks (mxfp8, nvfp4) came with
#: FP4: a device without it would have to multiply the scales in by itself.
BESIDE_BF16: dict[str, tuple[str, ...]] = {
    "fp8": ("fp8",),
    "mxfp8": ("fp8", "fp4"),
    "nvfp4": ("fp8", "fp4"),
}
#: What may be recomputed (``hetopt.cost.recompute`` has what it costs), and of these
#: what ``auto`` chooses from, by memory saved.
RECOMPUTE_OPTIONS: tuple[Recompute, ...] = get_args(Recompute)
RECOMPUTE: tuple[Recompute, ...] = RECOMPUTE_OPTIONS[:3]
#: Those with the name of Megatron-core's module that runs again.
MODULES: tuple[Recompute, ...] = RECOMPUTE_OPTIONS[4:]
#: Names of schedules; ``hetopt.schedule.schedules`` has their rules. Under the last one
#: the warm-up counts are decisions.
SCHEDULE_CHOICES: tuple[ScheduleName, ...] = get_args(ScheduleName)
#: Schedules that prescribe the warm-up counts.
SCHEDULES: tuple[ScheduleName, ...] = SCHEDULE_CHOICES[:-1]
#: In place of a schedule: the best of ``SCHEDULES``; and its old name in options.
ANY: Literal["auto"] = "auto"
ANY_BEFORE = "best"
#: The only schedule whose plans choose their warm-up counts.
FREE: ScheduleName = SCHEDULE_CHOICES[-1]
#: The only schedule whose stages hold several chunks of the model.
INTERLEAVED: ScheduleName = "interleaved-1f1b"
#: The only schedule whose warm-ups depend on times: ``Training.warmup_epsilon``.
ADAPTIVE: ScheduleName = "h-1f1b"
#: Schedules that fold the model in two: every stage has two chunks.
FOLDED: tuple[ScheduleName, ...] = ("zb-v", "v-half", "v-min")
RESHARDING: tuple[Resharding, ...] = get_args(Resharding)


def recompute_level(option: Recompute) -> int:
    """Return the place of an option in ``RECOMPUTE``; of all others that of the middle.

    They keep less than ``none`` and more than ``full``.
    """
    return RECOMPUTE.index(option) if option in RECOMPUTE else 1


def asked_name(schedule: Any) -> Any:
    """Return what an option asks for, by its present name."""
    return ANY if schedule == ANY_BEFORE else schedule
