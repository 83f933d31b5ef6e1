"""Analysis of code objects: the globals, attributes and modules whose names they contain."""

from __future__ import annotations

import builtins
import dis
import functools
import types
from typing import Any, NamedTuple


class CodeNames(NamedTuple):
    """The names in a code object and in all code objects nested in it."""

    global_names: Any  # in order of first use
    attributes: Any  # every name by which the code may read an attribute, including string constants
    imports: Any  # (level, name) of `import name`; level 0: absolute, 1: from the package of the code's module
    dynamic_reads: bool  # whether the code reads attributes by computed names
    catches_missing: bool  # whether the code may continue after a missing attribute


_dynamic_readers = {"__dict__", "asdict", "astuple", "dir", "fields", "getattr", "getmembers", "hasattr", "vars"}
_importers = {"__import__", "import_module", "modules"}
_caught_errors = {"AttributeError", "BaseException", "Exception"}


@functools.lru_cache(maxsize=65536)
def names_of(code: Any) -> CodeNames:
    """The names in this code object."""
    instructions = [
        instruction for instruction in dis.get_instructions(code) if instruction.opname not in ("CACHE", "EXTENDED_ARG")
    ]
    names = set(code.co_names)
    strings = [constant for constant in code.co_consts if isinstance(constant, str)]
    identifiers = {text for text in strings if text.isidentifier()}
    global_names = [
        instruction.argval for instruction in instructions if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    ]
    if "globals" in names:
        global_names += sorted(identifiers)
    imports = [
        (instructions[i - 2].argval, instruction.argval)
        for i, instruction in enumerate(instructions)
        if instruction.opname == "IMPORT_NAME"
    ]
    if not _importers.isdisjoint(names):
        imports += [(0, text) for text in strings if text and all(word.isidentifier() for word in text.split("."))]
    dynamic_reads, catches_missing = not _dynamic_readers.isdisjoint(names), _catches_missing(instructions, names)
    attributes = identifiers | names | {code.co_name}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            inner_names = names_of(inner)
            global_names, imports = global_names + list(inner_names.global_names), imports + list(inner_names.imports)
            attributes |= inner_names.attributes
            dynamic_reads, catches_missing = (
                dynamic_reads or inner_names.dynamic_reads,
                catches_missing or inner_names.catches_missing,
            )
    return CodeNames(
        tuple(dict.fromkeys(global_names)),
        frozenset(attributes),
        tuple(dict.fromkeys(imports)),
        dynamic_reads,
        catches_missing,
    )


def _catches_missing(instructions: Any, names: Any) -> bool:
    """Whether the code may catch an AttributeError. An `except` clause does if it names that class or a base of it,
    names no class, or computes the class."""
    if not _caught_errors.isdisjoint(names):
        return True
    opnames = {instruction.offset: instruction.opname for instruction in instructions}
    for i, item in enumerate(instructions):
        if item.opname in ("CHECK_EXC_MATCH", "JUMP_IF_NOT_EXC_MATCH"):
            kind = instructions[i - 1]
            is_builtin = kind.opname in ("LOAD_GLOBAL", "LOAD_NAME") and hasattr(builtins, kind.argval)
            if not is_builtin and kind.opname != "BUILD_TUPLE":
                return True
        if item.opname == "PUSH_EXC_INFO" and instructions[i + 1].opname == "POP_TOP":
            return True  # `except:`, from Python 3.11 on
        if item.opname == "SETUP_FINALLY" and opnames.get(item.argval) == "POP_TOP":
            return True  # before Python 3.11
    return False
