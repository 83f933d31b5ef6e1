"""The values that a compiled function reads besides its arguments. They are recorded during the trace and compared at
each later call."""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any, Optional

import numpy

from . import _core
from .attribute_guards import DICT_READS, AttributeGuards
from .code_names import names_of
from .differences import see_difference
from .errors import UserError
from .guard_list import ABSENT, DICT, INDEX, ITEM, MAPPING, MAX_ITEMS, ROOT, SAME, SCALAR, SEQUENCE, TYPE_DICT
from .read_watchpoints import ReadWatchpoints
from .reflection import INSTALLED, KAREZ, MISSING, TRACKED_KAREZ_FILES, absolute_name, dict_of, is_untracked, origin_of
from .type_aliases import Tensor
from .value_guards import SCALARS

# A place loses its guard once traces have rewritten it this often because other code had changed its value.
MAX_REWRITES = 3
# The dtypes of arrays and numbers that can be inputs of a program.
_inputs = {"bool", "int32", "int64", "uint8", "float16", "float32", "float64", "bfloat16"}


class CapturedState(AttributeGuards):
    """The guards of one program; a `with` statement encloses each of its traces.

    The guards cover the values that are reachable from the function, from the globals of every function that the trace
    enters, and from objects among the arguments. They follow the items of containers, and the attributes whose names
    occur in these functions.
    """

    def __init__(self, name: str, roots: Any, rewritten: Any = frozenset(), rewrite_counts: Any = None) -> None:
        super().__init__()
        self.name = name
        # `rewritten`: places whose value has changed since an earlier trace wrote it. `rewrite_counts`: how often
        # traces have rewritten each place.
        self.rewritten, self.rewrite_counts = rewritten, {} if rewrite_counts is None else rewrite_counts
        # `imports`: the modules that the code imports. `written`: the guards of values that a trace wrote.
        self.imports: dict[str, None] = {}
        self.written: set[int] = set()
        for text, root in roots:
            self._guard_value(-1, ROOT, root, root, text, 0)

    def __enter__(self) -> None:
        self.watchpoints = ReadWatchpoints()
        try:
            for place, (instance, name, text) in list(self.large.items()):
                self._restore_watchpoint(place, instance(), name, text)
        except UserError:
            self.watchpoints.end()
            raise
        self.entry_hook: Optional[_core.FunctionEntryHook] = _core.FunctionEntryHook(self._enter)
        self.entry_hook.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        assert self.entry_hook is not None and self.watchpoints is not None
        try:
            self.entry_hook.__exit__(kind, error, trace)
        finally:
            self.entry_hook = None
            self.watchpoints.end()
            self.watchpoints = None
        if error is None:
            self._finish_trace()

    def _finish_trace(self) -> None:
        """Updates the guards of the places that the trace has written, so that they expect the new values. Raises an
        error if such a value is a tensor of the traced program."""
        failing, grown_lists = self._failing_written(), []
        for number, value_left in failing.items():
            self._reject_traced(value_left, self.texts[number])
            grows = (
                self.places[number][3] == SEQUENCE
                and isinstance(value_left, list)
                and len(value_left) != self.guards.expected(number)
            )
            if grows and not self._is_rewritten(number):
                # The trace appends to this list, as to a log, so guards compare the items but not the length.
                self.guards.loosen(number)
                grown_lists.append(number)
        failing = self._failing_written() if grown_lists else failing
        for instance, number in self._live_objects():
            for key, item in list(dict_of(instance).items()):
                self._reject_traced(item, f"{self.texts[number]}.{key}")
        guarded_again = [number for number, value_left in failing.items() if self._keeps_guard(number, value_left)]
        self.guards.drop(list(failing))
        self.finishing, first_new_guard = True, len(self.guards)
        self._add_names(frozenset())
        try:
            for number in grown_lists:
                items: Any = self.guards.value(number, ())
                for i, item in enumerate(items) if len(items) <= MAX_ITEMS and not self.guards.dropped(number) else ():
                    self._guard_value(number, INDEX, i, item, f"{self.texts[number]}[{i}]", 0)
            self._guard_values_again(guarded_again, failing)
            for instance, number in self._live_objects():
                self._attributes(instance, number, self.names, self.texts[number], 0)  # new attributes
            for name in self.imports:
                self._import(name)
        finally:
            self.finishing, self.rewritten = False, frozenset()
        self.written.update(range(first_new_guard, len(self.guards)))

    def _failing_written(self) -> Any:
        """The failing guards, except those of the hooks of modules, which continue to expect the hooks that the trace
        found: after a hook has removed itself, the next call traces the function without it."""
        return {number: value for number, value in self._failing().items() if not self._is_of_hooks(number)}

    def _is_of_hooks(self, number: int) -> bool:
        """Whether the guard compares a module's tuple of hooks or its items, without the values that hooks capture."""
        while self.places[number][1] == INDEX:
            number = self.places[number][0]
        return self.places[number][1:3] == (ITEM, "_registered_hooks")

    def _keeps_guard(self, number: int, current: Any) -> bool:
        """Whether the place keeps a guard, which then expects the value that the trace left. A counter loses its guard,
        and so does a place that the traces of two functions overwrite alternately."""
        _, fetch, _, check = self.places[number]
        expected = self.guards.expected(number)
        if current is MISSING or fetch == ROOT:
            return False
        if check == ABSENT or expected is None and check == SCALAR:
            return True
        return not self._is_rewritten(number) and not (check == SCALAR and type(current) is int is type(expected))

    def _is_rewritten(self, number: int) -> bool:
        """Whether retraces that changes to this place caused have rewritten it too often."""
        place = self.place_of(number)
        if place in self.rewritten:
            self.rewrite_counts[place] = self.rewrite_counts.get(place, 0) + 1
        return bool(self.rewrite_counts.get(place, 0) >= MAX_REWRITES)

    def _guard_values_again(self, guarded_again: Any, values: Any) -> None:
        dropped = {
            number: place
            for place, number in self.seen.items()
            if self.guards.dropped(number) and (number not in values or number in guarded_again)
        }
        for place in dropped.values():
            del self.seen[place]
        lost = [
            (key, instance())
            for key, (instance, number) in list(self.objects.items())
            if self.guards.dropped(number) and instance() is not None
        ]
        for key, _ in lost:
            del self.objects[key]
        for number in guarded_again:
            parent, fetch, key, check = self.places[number]
            # the guards for sets of attribute names are added again together with their object or class
            if check != MAPPING or fetch not in (DICT, TYPE_DICT):
                self._guard_value(parent, fetch, key, values[number], self.texts[number], 0)
        unguarded = {id(value) for key, value in lost if key not in self.objects}
        for number in range(len(self.guards)) if unguarded else ():  # objects that other places reach too
            value = self.guards.value(number, None)
            if id(value) in unguarded and not self.guards.dropped(number) and self.places[number][3] == SAME:
                unguarded.discard(id(value))
                self._object(value, number, self.texts[number], 0)

    def own_changed(self) -> Any:
        """The places of failing guards whose values a trace had written, and the places of their parents."""
        found = set()
        for number in self.written.intersection(self.guards.failing()):
            while number >= 0:
                found.add(self.place_of(number))
                number = self.places[number][0]
        return found

    def changed(self) -> Any:
        """The failing guards, each with its current value."""
        return [(number, self.guards.value(number, MISSING)) for number in self.guards.failing()]

    def is_input(self, number: int) -> bool:
        """Whether the guard's current value is a number or array of the recorded type, so that it can be an input of a
        program."""
        expected, current, root = self.guards.expected(number), self.guards.value(number, None), number
        while self.places[root][0] >= 0:
            root = self.places[root][0]
        if root in self.unordered:
            return False
        if type(current) is float:
            return type(expected) is float
        return (
            isinstance(current, (numpy.ndarray, numpy.generic))
            and type(expected) is tuple
            and expected[:2] == (current.dtype, current.shape)
            and current.dtype.name in _inputs
        )

    def unguarded_inputs(self, sources: Any) -> Any:
        """The inputs that this trace did not reach. They have no guard in this state and may take any value."""
        compared = (
            {self.place_of(number) for number in range(len(self.guards)) if not self.guards.dropped(number)}
            if sources
            else ()
        )
        return [(item, number) for item, number in sources if item.place_of(number) not in compared]

    def describe_change(self, number: int, current: Any) -> str:
        """Describes the change: "global 'w' was 2.0 and is 3.0"."""
        expected = self.guards.expected(number)
        is_scalar = type(expected) in SCALARS and type(current) in SCALARS
        return (
            f"{self.texts[number]} was {expected!r:.60} and is {current!r:.60}"
            if is_scalar
            else f"{self.texts[number]} has changed"
        )

    def _reject_traced(self, value: Any, text: str) -> None:
        items = value if type(value) in (list, tuple) else value.values() if type(value) is dict else (value,)
        for item in items:
            if issubclass(type(item), Tensor) and item._kind == "traced":
                raise UserError(
                    f"function '{self.name}' stored a tensor of its program, {item._text()}, in {text}, which outlives "
                    "the trace; the tensor has no value outside of the program. Return it, or keep it in a buffer with "
                    f"kz.update{see_difference('traced tensors in other objects')}\n  at {item._line()}"
                )

    def _enter(self, code: Any, namespace: Any) -> None:
        file = code.co_filename
        if is_untracked(file) and not file.startswith(TRACKED_KAREZ_FILES):
            return
        code = names_of(code)
        is_own_file = file.startswith(KAREZ)
        if not is_own_file:
            for name in code.global_names:
                self._global(namespace, name, file.startswith(INSTALLED))
            for level, name in code.imports:
                name = absolute_name(level, name, namespace)
                for end in [i for i, item in enumerate(name) if item == "."] + [len(name)]:
                    self.imports[name[:end]] = None
                    self._import(name[:end])
        self._add_names(
            code.attributes - DICT_READS if is_own_file else code.attributes,
            not is_own_file and code.dynamic_reads,
            not is_own_file and code.catches_missing,
        )

    def _import(self, name: str) -> None:
        module = sys.modules.get(name)
        if isinstance(module, types.ModuleType) and not is_untracked(origin_of(module)):
            self._guard_value(self._namespace(sys.modules, "modules"), ITEM, name, module, f"module '{name}'", 0)

    def _global(self, namespace: Any, name: str, installed: bool) -> None:
        root = self._namespace(namespace, "globals")
        value = namespace.get(name, MISSING)
        if value is MISSING and not isinstance(vars(builtins).get(name, len), (type, types.BuiltinFunctionType)):
            self._guard_value(
                self._namespace(vars(builtins), "builtins"), ITEM, name, vars(builtins)[name], f"builtin '{name}'", 0
            )
        if installed and isinstance(value, (list, tuple, dict, set, frozenset)) and len(value) > MAX_ITEMS:
            return  # the container belongs to an installed package, so the user cannot pass it as an argument
        self._guard_value(root, ITEM, name, value, f"global '{name}'", 0)
