# SPDX-License-Identifier: Apache-2.0
"""The proof of a bundle as JSON."""

from policyc.backends.report.formats.json import document, universe_json
from policyc.backends.report.options import ReportOptions
from policyc.ir.results.prove import ProveResult

FORMAT = "json"


def prove_json(result: ProveResult, _options: ReportOptions) -> str:
    """docs/schemas/prove-result-v1.schema.json."""
    return document(
        "prove-result/v1",
        result=result.status.value,
        bundle=result.bundle,
        universe=universe_json(result.universe),
        parts=[
            {
                "lemma": part.lemma,
                "what": part.what,
                "result": part.status.value,
                "claims": part.claims,
                "faults": list(part.faults),
            }
            for part in result.parts
        ],
        solvers=[{"name": name, "version": version} for name, version in result.solvers],
        assumptions=list(result.assumptions),
    )


RENDERERS = {ProveResult: prove_json}
