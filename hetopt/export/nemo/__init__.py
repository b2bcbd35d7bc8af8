"""NeMo's Megatron-Bridge: Megatron-LM, configured by a recipe."""
