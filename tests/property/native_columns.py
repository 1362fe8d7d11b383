# SPDX-License-Identifier: Apache-2.0
"""Flows as columns of numbers."""

from policyc.compiler.frontend.flows.columns import FlowColumns
from policyc.ir.universe import Flow


def columns_of(flows: list[Flow]) -> FlowColumns:
    columns = FlowColumns()
    for at, flow in enumerate(flows):
        for end, column in ((flow.src, columns.src), (flow.dst, columns.dst)):
            if end not in columns.ends:
                columns.ends.append(end)
            column.append(columns.ends.index(end))
        question = (flow.family, flow.service, flow.source_port)
        if question not in columns.questions:
            columns.questions.append(question)
        columns.asked.append(columns.questions.index(question))
        columns.lines.append(at + 2)
    return columns
