"""Problems whose model is one of the configurations in ``tests/configs``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from hetopt.export.job import Job
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text

FOLDER = Path(__file__).parent / "configs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def problem_of(name: str, **model: Any) -> Problem:
    """Return a problem of one cluster; ``model`` overrides what the file gives."""
    return _problem({"hf_config": str(FOLDER / f"{name}.json"), **model})


def problem_with_preset(name: str, **model: Any) -> Problem:
    """Return the same of a preset."""
    return _problem({"preset": name, **model})


def _problem(model: dict[str, Any]) -> Problem:
    data = {
        "model": model,
        "clusters": [
            {
                "name": "a",
                "accelerator": "H100",
                "nodes": 4,
                "devices_per_node": 8,
                "inter_node": {"bandwidth": "400 Gbps"},
            }
        ],
        "training": {"global_batch": 8, "seq_len": 8192, "schedule": "1f1b"},
    }
    return read_problem_text(yaml.safe_dump(data), str(FOLDER / "problem.yaml"))


def job_of(problem: Problem, *, cp: int = 1, tp: int = 1, ep: int = 1) -> Job:
    """Return a job of two stages, with half of the layers each."""
    strategy = Strategy(dp=1, cp=cp, tp=tp, ep=ep, recompute="none")
    units = len(problem.model.units)
    half = 1 + problem.model.layers // 2
    stages = tuple(
        Stage(
            cluster="a",
            first_unit=first,
            end_unit=end,
            strategy=strategy,
            warmup=warmup,
            resharding="p2p" if first == 0 else None,
        )
        for first, end, warmup in ((0, half, 2), (half, units, 1))
    )
    plan = Plan(
        schedule="1f1b",
        pipelines=(Pipeline(microbatches=8, stages=stages),),
        problem_digest="0" * 64,
        table_digest="0" * 64,
    )
    return Job.of(problem, plan)
