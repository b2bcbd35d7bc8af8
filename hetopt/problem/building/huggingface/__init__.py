"""Hugging Face ``config.json`` files as the fields of a model.

The keys of a family, their defaults and their meaning are those of the configuration
and modelling classes of transformers 4.57 and 5 (``models/FAMILY``).
"""
