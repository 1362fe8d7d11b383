# SPDX-License-Identifier: Apache-2.0
"""Errors that stop the execution of bytecode. Nothing unknown is ignored: it raises one of these."""


class BytecodeError(Exception):
    """The bytecode cannot be read or executed; the subclasses name the cause."""


class ObjectError(BytecodeError):
    """A file is not a BPF object, is truncated or contradicts itself."""


class InstructionError(BytecodeError):
    """An encoding that is not in the instruction set (v3)."""


class UnmodelledError(BytecodeError):
    """Legal for the kernel, but without a model here: nothing may be concluded about the program."""


class FaultError(BytecodeError):
    """An access that the kernel's verifier forbids: out of bounds, uninitialised, a misused pointer."""


class StepLimitError(BytecodeError):
    """The program ran longer than the caller's limit."""
