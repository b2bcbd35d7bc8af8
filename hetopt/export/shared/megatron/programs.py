"""Programs that take Megatron-LM's arguments, by name: which hetopt can price."""

from __future__ import annotations

import re

from hetopt.errors import InputError
from hetopt.export.understood import not_priced
from hetopt.results.reported import Reported

#: Programs that pre-train a decoder.
_DECODERS = re.compile(r"(?:pretrain|train)_(?:gpt|llama|mixtral|qwen)\w*")
#: Words in the path of other programs, and what these do.
_OTHERS = (
    ("bert", "pre-trains BERT, an encoder"),
    ("t5", "pre-trains T5, an encoder and a decoder"),
    ("retro", "pre-trains Retro, which retrieves"),
    ("ict|realm|biencoder|orqa|retriever", "trains a retriever"),
    ("mamba|hybrid", "trains state-space layers"),
    (
        "vlm|llava|multimodal|mimo|vision|vit|clip|inpaint|dino|swin|segmentation",
        "trains on images",
    ),
    ("rl|grpo|ppo|dpo|rlhf", "runs reinforcement learning"),
    (
        "eval|evaluate|evaluation|evalharness|tasks|zeroshot",
        "evaluates a trained model",
    ),
    (
        "inference|server|generate|generation|samples|serve|serving",
        "generates text",
    ),
    (
        "preprocess|convert|converter|checkpoint|ckpt|export|merge|ptq|quantize|tools",
        "converts files",
    ),
)
#: Arguments that only other programs have, under any name of the program.
_ARGUMENTS = {
    "is_hybrid_model": "trains state-space layers",
    "hybrid_override_pattern": "trains state-space layers",
    "hybrid_attention_ratio": "trains state-space layers",
    "encoder_num_layers": "trains an encoder",
    "decoder_num_layers": "trains an encoder and a decoder",
    "decoder_seq_length": "trains an encoder and a decoder",
    "retro_add_retriever": "trains Retro, which retrieves",
    "vision_pretraining": "trains on images",
    "perform_rl_step": "runs reinforcement learning",
    "skip_train": "evaluates a trained model",
    "ds_inference": "generates text",
    "kd": "distils a teacher",
    "mos": "distils a teacher",
    "export_kd_teacher_load": "distils a teacher",
}


def other_program(program: str | None) -> str | None:
    """Return what a program does if it pre-trains no decoder; None if it may do so."""
    if program is None or _is_decoder(program):
        return None
    words = re.split(r"[/._-]+", program.lower().removesuffix(".py"))
    for names, does in _OTHERS:
        if not set(names.split("|")).isdisjoint(words):
            return does
    return None


def _is_decoder(program: str) -> bool:
    name = re.split(r"[/.]", program.removesuffix(".py"))[-1]
    return _DECODERS.fullmatch(name) is not None and "mamba" not in name


def ensure_decoder(program: str | None, names: frozenset[str], file: str) -> None:
    """Raise InputError if a program does anything but pre-train a decoder.

    Parameters
    ----------
    names
        Of its arguments, with underscores.
    """
    does = other_program(program)
    if does is not None:
        msg = f"{does}: hetopt can price the pre-training of a decoder alone"
        raise InputError(msg, file=file, field=program)
    for name, does in _ARGUMENTS.items():
        if name in names:
            msg = f"{does}: hetopt can price the pre-training of a decoder alone"
            spelled = "--" + name.replace("_", "-")
            raise InputError(msg, file=file, field=spelled)


def unknown_program(program: str | None) -> tuple[Reported, ...]:
    """Return a report if a program is only assumed to pre-train a decoder."""
    if program is not None and _is_decoder(program):
        return ()
    taken = "taken for the pre-training of a decoder"
    if program is None:
        return (not_priced("program", f"the script does not tell which: {taken}"),)
    why = f"hetopt does not know this program: {taken}"
    return (Reported(argument=program, kind="unknown", why=why),)
