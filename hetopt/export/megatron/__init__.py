"""Megatron-LM: one (dp, cp, tp) for all stages, uneven layers."""
