"""Hugging Face ``config.json`` files as the fields of a model.

Which keys a family has, their defaults and what they mean is as in the configuration
and modelling classes of transformers 4.57 and 5 (``models/FAMILY``).
"""
