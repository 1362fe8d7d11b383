# SPDX-License-Identifier: Apache-2.0
"""Errors that stop the execution of bytecode. Nothing unknown is ignored: it raises one of these."""


class BytecodeError(Exception):
    """The bytecode cannot be read or executed; the subclasses say on whose account."""


class ObjectError(BytecodeError):
    """A file is no BPF object, is cut off or contradicts itself."""


class InstructionError(BytecodeError):
    """An encoding that the instruction set (v3) has not."""


class UnmodelledError(BytecodeError):
    """Legal for the kernel, and not known here: nothing may be concluded about the program."""


class FaultError(BytecodeError):
    """What the kernel's verifier forbids: out of bounds, not written before, a pointer misused."""


class StepLimitError(BytecodeError):
    """The program went on for longer than whoever ran it wanted."""
