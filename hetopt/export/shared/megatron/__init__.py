"""Megatron-LM's settings, for every launcher that takes them."""
