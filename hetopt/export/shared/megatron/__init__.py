"""Megatron-LM's settings, for every launcher that uses them."""
