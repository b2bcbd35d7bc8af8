"""Every single change of a file is read, or refused in a line that names the field.

``documents`` has valid files, ``snapshots`` what their readers say of each change.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from hetopt.base.faults import Fault, faults
from hetopt.check import check_result
from hetopt.check.plan.reading import read_plan
from hetopt.cost.operators.file import parse_operators
from hetopt.cost.operators.simumax import read_simumax
from hetopt.cost.operators.vidur import read_vidur
from hetopt.cost.profiles.file import parse_profile
from hetopt.cost.profiles.foreign import Target
from hetopt.cost.profiles.metis import read_metis
from hetopt.cost.profiles.sailor import read_sailor
from hetopt.cost.table_file.file import table_digest, table_from_json
from hetopt.errors import InputError
from hetopt.export.bundle import bundle
from hetopt.export.registry import readers
from hetopt.export.torch.launcher import LAUNCHER as TORCH
from hetopt.inventory.reading import read_inventory
from hetopt.plans.plan import Plan
from hetopt.problem.accelerator_file import read_accelerator
from hetopt.problem.building.huggingface.fields import model_fields
from hetopt.problem.digest import problem_digest
from hetopt.problem.document.document import Document, dotted, parse_document
from hetopt.problem.files import Files
from hetopt.problem.model.model import Model
from hetopt.problem.reading import problem_of
from hetopt.problem.training.lengths import read_histogram
from hetopt.problem.training.training import Training
from hetopt.report.page.history import read_history
from hetopt.report.whatif.reasons import Reasons
from hetopt.report.whatif.table import Whatif
from hetopt.results.certificate import Certificate, TreeCertificate
from hetopt.results.front import Front
from hetopt.results.result import Result
from hetopt.running.measured import Measured
from hetopt.solvers.mip.solution_file import read_solution
from tests.check.claims.made import made, over_of
from tests.check.plan.test_result import sample
from tests.cost.making import make_model
from tests.export.shared.test_mutated_files import files_of
from tests.mutations import csv_mutations, flag_mutations, mutations, word_mutations
from tests.oracle.instances import make_instance
from tests.problem.building import published_configs as published
from tests.readers.reader import DOCUMENTS, SNAPSHOTS, Reader, check, document
from tests.runtimes.torch_plans import EXPERTS, job_of
from tests.search.test_journal import run

if TYPE_CHECKING:
    from hetopt.base.file_record import FileRecord
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from tests.mutations import Path as Place_

ROOT = Path(__file__).parents[2]
H100 = ROOT / "data" / "accelerators" / "h100.json"
TARGET = Target(
    model=make_model(layers=3, hidden=256, heads=4, kv_heads=4, head_dim=64, ffn=1024),
    training=Training(global_batch=4, seq_len=512, precision="fp16"),
    accelerator="A100-80GB",
    communication="excluded",
)


def problem(data: Any) -> Any:
    """Read a problem."""
    found = problem_of(Document(data), "problem")
    return found, problem_digest(found)


def config(data: Any) -> Model:
    """Read the model of a Hugging Face config.json."""
    try:
        fields = model_fields(data, name="model")
        return Model.of({"hf_config": "x"}, Files(config=lambda _: fields))
    except ValidationError as error:
        fault = faults(error)[0]
    except Fault as error:
        fault = error
    raise InputError(fault.message, field=dotted(fault.path))


def table(data: Any) -> str:
    """Read a latency table."""
    return table_digest(table_from_json(data, file="t.json"))


def checked(
    name: str, problem: Problem, table: CostTable, result: Any, **fields: Any
) -> Reader:
    """Return the checker as a reader of results: whether there are findings."""

    def read(data: Any) -> bool:
        return bool(check_result(problem, table, data))

    return Reader(name, read, document=json.loads(json.dumps(result)), **fields)


def at(*dotted: str) -> tuple[Place_, ...]:
    """Return places of a document."""
    return tuple(
        tuple(int(x) if x.isdigit() else x for x in d.split(".")) for d in dotted
    )


#: Where the document of a problem is changed.
PROBLEMS = {
    "clusters": ((),),
    "devices": at("clusters.0.accelerator", "clusters.1.accelerator"),
    "training": at("training", "latency", "calibration", "launcher"),
    "pins": at("pin"),
    **dict.fromkeys(("experts", "sizes", "text", "images"), at("model")),
}
#: Names that other fields of a problem refer to, and what these need.
OF_PROBLEMS = {
    "name": r"expected (a cluster of this problem|the block before)",
    "nodes": r"devices_per_node: is missing",
    "clusters": r"between\.1: is 'odd', expected a cluster of this problem",
    "default": r"links\.pairs\.0\.latency: is missing",
    "order": r"pin\.clusters: pins 1 stages in all, but 2",
    "blocks": r"model\.layers: is missing",
}
#: Lists that other values of a table lie along, and names that others refer to.
_REFERRED = r": is '\w+'(?: \(did you mean '\w+'\?\))?, expected one of "
OF_TABLES = {
    "kinds": rf"{_REFERRED}|body: is a list of 3, expected 2|_ns\.\w+: is missing",
    "units": r"cuts: is 5 cuts, expected \d",
    "clusters": r"layouts\.1\.cluster: is 'b', expected one of a",
    "layouts": r"transfer_ns: has lists of shape \[[\d, ]+\], expected lists",
    "microbatches": r"slices: is .* expected ascending micro-batch counts",
    "chunks": r"micro-batches in flight take up to",
    "pairs": r"forward_ns: is wrong for a pair",
    **dict.fromkeys(("cut_classes", "tensors", "name"), _REFERRED),
}
TABLES: dict[str, dict[str, Any]] = {
    "table": {},
    "table-chunks": {"within": at("chunks", "way_back")},
    "table-pairs": {"within": at("pairs")},
    "table-per-unit": {"within": at("per_unit"), "closed": ("layouts",)},
}
#: Parts of answers that have snapshots of their own.
PARTS = ("plan", "cost", "asked", "over", "claims")
RECORDS: dict[str, tuple[type[FileRecord], tuple[str, ...]]] = {
    "plan": (Plan, ()),
    "result": (Result, ("plan",)),
    "front": (Front, PARTS),
    "certificate": (Certificate, PARTS),
    "certificate-tree": (TreeCertificate, ("plan", "over")),
    "measured": (Measured, ()),
    "whatif": (Whatif, PARTS),
    "reasons": (Reasons, PARTS),
}
#: Of the forms that a value may have, the first is expected.
FORMS = r"claims\.children\.2\.at: is a list, expected a mapping"
CONFIGS = {
    **{name: document(f"config-{name}") for name in ("llama", "gpt2", "gemma2")},
    "deepseek-v3": published.DEEPSEEK_V3,
    "llama-4": published.LLAMA_4_SCOUT,
}
#: Facts of an accelerator, one of each type.
FACTS = at(
    *("name", "peak_flops.bf16", "memory", "intra_node.bandwidth"),
    *("intra_node.latency", "intra_node_share", "roofline.attention"),
    *("operators.relatives", "operators.sustained", "operators.accuracy"),
    "visible_devices",
)
#: Parts of a fact's value: the fact is named.
SHARES = ("multiplication", "attention", "elementwise", "sharding", "tensor")
VALUES = ("value", "runs", "median", "worst", *SHARES)
#: Keys by which a form is known, and those whose place is told by a number.
OF_INVENTORIES = dict.fromkeys(
    (
        "kind",
        "apiVersion",
        "items",
        "sinfo",
        "nodes",
        "NodeManagerAddress",
        "Resources",
    ),
    r"is no inventory that hetopt knows|holds no node|0: (is|has|cont)",
)  #: A script that names a configuration of DeepSpeed.
DEEPSPEED = """\
deepspeed --num_gpus 1 pretrain_gpt.py --num-layers 8 --micro-batch-size 1 \\
  --global-batch-size 8 --no-pipeline-parallel --bf16 --deepspeed \\
  --deepspeed_config ds.json
"""

#: One whose race tells of plans and of settled (p, q).
INSTANCE = make_instance(20)


def resumed(path: Path) -> Any:
    """Return what a search makes of its journal."""
    result = run(INSTANCE, path)
    return result.status, result.best, result.lower_bound_s


def journal_of(folder: Path) -> list[Any]:
    """Return one line of each kind of a search's journal."""
    path = folder / "journal.jsonl"
    run(INSTANCE, path)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    kinds = ("schema", "search", "decision", "stages", "result")
    found = [next(line for line in lines if kind in line) for kind in kinds]
    # What depends on the clock, or has snapshots of its own.
    return [line | {"elapsed_s": 0.5} if "how" in line else line for line in found]


READERS = (
    *(
        Reader(f"problem-{name}", problem, within=within, elsewhere=OF_PROBLEMS)
        for name, within in PROBLEMS.items()
    ),
    *(
        Reader(f"config-{name}", config, document=data)
        for name, data in CONFIGS.items()
    ),
    *(
        Reader(name, table, elsewhere=OF_TABLES, **fields)
        for name, fields in TABLES.items()
    ),
    *(
        Reader(
            name,
            kind.from_json,
            closed=closed,
            elsewhere={"fast": FORMS, "unknown": FORMS},
        )
        for name, (kind, closed) in RECORDS.items()
    ),
    Reader(
        "journal",
        lambda path: read_history(str(path), Plan.from_json(document("plan"))).moments,
        file="journal.jsonl",
        elsewhere={"search": r"problem_digest: is not the plan's"},
    ),
    checked("result-checked", *sample()),
    checked(
        "claims-checked",
        *made(over_of("fs")),
        within=at("claims", "over"),
        elsewhere={
            "passed_over": r"bound_s: is missing",
            "over": r"children\.0\.bound_s: is missing",
            "unknown": r"over\.\d: is not one of fleets, schedules, divisions",
        },
    ),
    Reader(
        "plan-checked",
        partial(read_plan, field=""),
        document=document("plan"),
        elsewhere={"512": "sequences: is empty, expected sequences"},
    ),
    Reader("profile", partial(parse_profile, name="p.csv"), changes=csv_mutations),
    Reader("operators", partial(parse_operators, name="o.csv"), changes=csv_mutations),
    Reader("lengths", read_histogram, file="lengths.csv", changes=csv_mutations),
    Reader(
        "vidur",
        lambda path: read_vidur(str(path.parents[2])),
        file="h100/microsoft/phi-2/mlp.csv",
        changes=csv_mutations,
    ),
    Reader(
        "metis",
        lambda path: read_metis(str(path.parent), TARGET),
        file="DeviceType.A100_tp1_bs1.json",
        elsewhere={"layer_compute_total_ms": "less than its layers take together"},
    ),
    Reader(
        "sailor",
        lambda path: read_sailor(str(path), TARGET),
        file="profile.json",
        # Keys are numbers; without one there are too few of what it counts.
        elsewhere=dict.fromkeys("0124", r"has 2 layers between|2: is not a mapping"),
    ),
    Reader("simumax", lambda path: read_simumax(str(path)), file="a100_pcie.json"),
    *(
        Reader(
            f"inventory-{name}",
            lambda path: read_inventory(str(path)).nodes,
            file="i.json",
            elsewhere=OF_INVENTORIES,
        )
        for name in ("kubernetes", "sinfo", "scontrol", "ray")
    ),
    *(
        Reader(
            f"inventory-{name}",
            lambda path: read_inventory(str(path)).nodes,
            file="inventory",
            changes=word_mutations,
        )
        for name in ("sinfo-text", "scontrol-text", "hostfile")
    ),
    *(
        Reader(
            f"solution-{name}",
            lambda path: read_solution(str(path)).columns(["x", "y"], [True, False]),
            file="model.sol",
            changes=word_mutations,
        )
        for name in ("gurobi", "highs", "cbc", "scip", "glpk", "glpk-numbered")
    ),
    Reader(
        "deepspeed",
        lambda path: readers()["megatron"].read(path.parent),
        file="ds.json",
        beside={"run.sh": DEEPSPEED},
    ),
    Reader(
        "accelerator",
        partial(read_accelerator, file="mine.json"),
        document=json.loads(H100.read_text("utf-8")),
        within=FACTS,
        elsewhere=dict.fromkeys(VALUES, r"^[\w.]+: "),
    ),
)


#: Files of bundles, and how they are changed; YAML and JSON as documents.
BUNDLES = {
    "flagscale": "conf/train/plan.yaml",
    "flagscale-experiment": "conf/experiment.yaml",
    "hetu": "ds_parallel.yaml",
    "hexiscale": "hetero_configs.json",
    "hexiscale-script": "nodes/0-hall0-node-1.sh",
    "megatron": "nodes/0-hall0-node-1.sh",
    "nemo": "recipe.yaml",
    "torch": "job.json",
    "torch-ranks": "ranks.csv",
}


#: What other settings follow from, or are compared with.
OF_BUNDLES = {
    "system": r"micro-batch size 2 \* dp 6",
    **dict.fromkeys(
        (*"012345", "unknown"),
        r"rank_to_device_mapping: has no device|num_gpus: is 6, ",
    ),
    "dp": r"cp_list: is no list of 1",
    "recompute_layer_idxs_list": r"recompute: is no list of layers",
    **dict.fromkeys(
        ("hetero", "enable_hetero", "pipeline_model_parallel_layout"),
        r"num.layers: is 10, which does not leave",
    ),
    "hetero_device_types": r"hetero_current_device_type: is 'hall0', which is no dev",
    "model": r"num_layers: is left out, expected",
    **dict.fromkeys(("nnodes", "CUDA_VISIBLE_DEVICES"), r"has \d devices? of type"),
    **dict.fromkeys(
        ("num_layers", "pipeline_model_parallel_size", "pipeline-model-parallel-size"),
        r"pipeline.model.parallel.layout: has",
    ),
    "all_hetero_configs_path": r"no such file|is a directory",
    "rank_to_device_mapping": r"num_gpus: is 6, ",
    "train": r"micro_batch_size: is missing",
}


def of_bundle(name: str, file: str) -> Reader:
    """Return the reader of a launcher's bundle, one file of which is changed."""
    launcher = name.partition("-")[0]
    beside = dict(files_of(launcher, 1))
    if name == "torch":
        job = job_of(EXPERTS["over replicas"])
        beside = bundle(job, TORCH, allow_lossy=False)
    text = beside.pop(file)
    up = len(Path(file).parts) - 1
    changes: Any = {".sh": flag_mutations, ".csv": csv_mutations}
    suffix = Path(file).suffix
    parsed = None if suffix in changes else parse_document(text, file).data
    return Reader(
        f"bundle-{name}",
        lambda path: readers()[launcher].read(path.parents[up]),
        document=parsed or text,
        file=file,
        beside=beside,
        changes=changes.get(suffix, mutations),
        elsewhere=OF_BUNDLES
        | {key.replace("_", "-"): x for key, x in OF_BUNDLES.items()},
    )


READERS = (*READERS, *(of_bundle(*each) for each in BUNDLES.items()))


def test_a_search_reads_its_journal(tmp_path: Path) -> None:
    lines = journal_of(tmp_path)
    check(
        Reader(
            "journal-resumed",
            resumed,
            document=lines,
            file="journal.jsonl",
            closed=("result",),
        ),
        tmp_path,
    )


@pytest.mark.parametrize("reader", READERS, ids=lambda each: each.name)
def test_every_change_is_told(reader: Reader, tmp_path: Path) -> None:
    check(reader, tmp_path)


def test_every_snapshot_and_document_has_a_reader() -> None:
    names = {"journal-resumed", *(reader.name for reader in READERS)}
    assert {path.stem for path in SNAPSHOTS.iterdir()} == names
    assert {path.stem for path in DOCUMENTS.iterdir()} <= names
