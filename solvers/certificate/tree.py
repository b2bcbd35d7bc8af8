"""The certificate of everything that was searched: of each leaf, if it branched."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.check.verify.certificate import not_covered
from hetopt.cost.table_file.file import table_digest
from hetopt.problem.training.principles import Principles
from hetopt.results.certificate import TreeCertificate
from hetopt.solvers.certificate.claim import certify
from hetopt.solvers.search.node import best_of

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result
    from hetopt.solvers.search.node import Leaf
    from hetopt.solvers.search.search import TreeSearch


def certificate_of(
    tree: TreeSearch, problem: Problem, table: CostTable, result: Result
) -> str:
    """Return the text of the certificate of a search that has ended.

    Parameters
    ----------
    problem, table
        Those of the result's plan.

    Raises
    ------
    InputError
        No certificate covers the objective of the result.
    """
    if not tree.over.branches:
        return certify(problem, table, result).to_text()
    written: set[int] = set()

    def of_leaf(leaf: Leaf) -> dict[str, Any] | None:
        # Divisions may have pipelines in common: what is known of one holds in all.
        if id(leaf) in written:
            return None
        written.add(id(leaf))
        return {**_certified(leaf), **best_of(leaf)}

    return TreeCertificate(
        problem_digest=table.problem_digest,
        table_digest=table_digest(table),
        over=result.over,
        plan=None if result.best is None else result.best.plan,
        claims=tree.root.claim(of_leaf),
    ).to_text()


def _certified(leaf: Leaf) -> dict[str, Any]:
    """Return the certificate of a leaf's bound, if there may be one."""
    proof, space = leaf.proof, leaf.space
    assert proof is not None
    if not_covered(space.table, proof.objective, Principles.relaxing(proof.relaxed)):
        return {}
    if proof.status == "feasible":
        # Its plan may be worse than a cutoff, up to which its programs were refuted.
        proof = replace(proof, status="unknown", best=None)
    return {"certificate": certify(space.problem, space.table, proof).to_json()}
