# SPDX-License-Identifier: Apache-2.0
"""A certificate as JSON: what `policyc equiv --check` reads."""

from dataclasses import asdict

from policyc.backends.report.formats.json import (
    counts_json,
    difference_json,
    document,
    opaque_json,
    universe_json,
)
from policyc.backends.report.options import ReportOptions
from policyc.ir.results.certificate import Certificate
from policyc.ir.results.diff import left_out, n_regions

FORMAT = "json"


def certificate_json(result: Certificate, _options: ReportOptions) -> str:
    """docs/schemas/certificate-v2.schema.json."""
    values: dict[str, object] = {
        "result": result.result.value,
        "a": result.before,
        "b": result.after,
        "universe": universe_json(result.universe),
        "evidence": {
            "method": result.method,
            "solvers": [{"name": name, "version": version} for name, version in result.solvers],
        },
        "settings": asdict(result.settings),
        "inputs": [
            {"side": each.side, "path": each.path, "sha256": each.sha256} for each in result.inputs
        ],
        "obligations": [
            {
                "what": each.what,
                "digest": each.digest,
                "answers": [
                    {"solver": solver, "version": version, "answer": answer}
                    for solver, version, answer in each.answers
                ],
            }
            for each in result.obligations
        ],
        "differences": [difference_json(each) for each in result.differences],
        "counts": counts_json(result.counts),
        "omitted": n_regions(left_out(result.counts, result.differences)),
    }
    if result.opaque:
        values["possible"] = [difference_json(each) for each in result.possible]
        values["opaque"] = [opaque_json(each) for each in result.opaque]
    if result.undecided:
        values["undecided"] = result.undecided
    if result.checked is not None:
        values["checked"] = {"what": result.checked, "faults": list(result.faults)}
    return document("certificate/v2", **values)


RENDERERS = {Certificate: certificate_json}
