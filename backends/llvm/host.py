# SPDX-License-Identifier: Apache-2.0
"""Compile a module for the processor that this process runs on. No state is shared between modules."""

import ctypes
from dataclasses import dataclass

from llvmlite import binding

from policyc.backends.llvm.modules import TABLES, Array, Module


@dataclass
class Compiled:
    """Machine code and the tables that it reads; both live as long as this object."""

    module: Module
    _engine: binding.ExecutionEngine

    def run(self, name: str, count: int, columns: list[Array]) -> None:
        """Call a function over columns of `count` elements: its inputs, then its outputs."""
        addresses = [column.ctypes.data for column in columns]
        kinds = [ctypes.c_size_t, *([ctypes.c_void_p] * (len(columns) + 1))]
        function = ctypes.CFUNCTYPE(None, *kinds)(self._engine.get_function_address(name))
        function(count, *addresses, self._table_addresses())

    def _table_addresses(self) -> "ctypes.Array[ctypes.c_void_p]":
        found = (self.module.tables.get(name) for name in TABLES)
        addresses = [None if table is None else table.ctypes.data for table in found]
        return (ctypes.c_void_p * len(TABLES))(*addresses)


def compile_module(module: Module) -> Compiled:
    """Verify, optimise and translate. LLVM names functions, so each module has an engine of its own."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    parsed = binding.parse_assembly(module.text)
    parsed.verify()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
    )
    options = binding.create_pipeline_tuning_options(speed_level=3)
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    engine = binding.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return Compiled(module, engine)
