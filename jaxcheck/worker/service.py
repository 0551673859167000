"""The worker's requests: one method each, named as the request is; those about single equations are in `walks`."""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from jaxcheck.goldens.exchange import send_tree, write_tree
from jaxcheck.goldens.golden import Golden
from jaxcheck.goldens.leaf import Tree
from jaxcheck.registry.model import DERIVED_MODES
from jaxcheck.worker import (
    checks,
    derivatives,
    environment,
    equations,
    group,
    guesses,
    internals,
    keys,
    latency,
    primitives,
    probes,
    program,
    repeated,
    replays,
    streams,
    traceable,
    traces,
    truth,
)
from jaxcheck.worker.inputs import Arguments, factory_cases, from_factory, from_registry
from jaxcheck.worker.jitted import JITTED
from jaxcheck.worker.kernels import BadName, argument_faults, describe, project_sources, resolve
from jaxcheck.worker.memory import Memory
from jaxcheck.worker.settings import Running
from jaxcheck.worker.subject import Produced, Subject
from jaxcheck.worker.together import Together

WARMUP = 3
LATENCY_SECONDS = 5.0


class Prepared:
    """A recipe in this process: its functions found, its cases known, inputs and references made when first asked."""

    def __init__(self, recipe: dict[str, Any]) -> None:
        self.recipe = recipe
        self.static = tuple(recipe["static"])
        self.factory = factory_cases(recipe["inputs"]) if recipe["inputs"] else {}
        self.kernel = resolve(recipe["kernel"])
        self.properties = {name: resolve(name) for name in recipe["properties"]}
        self.reference = resolve(recipe["reference"]) if recipe["reference"] else None
        self._arguments: dict[str, Arguments] = {}
        self._references: dict[str, str] = {}
        self._stored: dict[tuple[str, str], Tree] = {}

    def case_names(self) -> list[str]:
        return list(self.factory) or list(self.recipe["cases"])

    def arguments(self, case: str) -> Arguments:
        if case not in self._arguments:
            if self.factory:
                self._arguments[case] = from_factory(self.factory[case], self.static)
            else:
                self._arguments[case] = from_registry(self.recipe["cases"][case], self.static, self.recipe["root"])
        return self._arguments[case]

    def stored_inputs(self, case: str, golden: str) -> Tree:
        """Those that the golden at a path has: read once, whatever the number of modes."""
        if (case, golden) not in self._stored:
            with Golden.open(golden) as opened:
                self._stored[case, golden] = opened.inputs(case)
        return self._stored[case, golden]

    def reference_file(self, case: str, arguments: Arguments, folder: str) -> str:
        """Where the reference's outputs are: computed once a case, whatever the number of modes."""
        if case not in self._references:
            assert self.reference is not None
            path = os.path.join(folder, f"reference-{len(self._references)}.npz")
            self._references[case] = send_tree(path, checks.reference_tree(self.reference, arguments))
        return self._references[case]


class Service:
    def __init__(self) -> None:
        self.clock = internals.CompileClock()
        self.programs = internals.CompiledPrograms()
        self.prepared: dict[str, Prepared] = {}
        self.memory = Memory()
        self.together = Together()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply; `programs` in it counts what came out of the compilation cache meanwhile."""
        op = request.pop("op")
        method: Callable[..., dict[str, Any]] = getattr(self, op, partial(self._walked, op))
        reply = method(**request)
        return {**reply, "programs": self.programs.taken()}

    def start(
        self,
        backend: str | None,
        devices: int | None,
        x64: bool,
        paths: list[str],
        cores: int | None = None,
        compiled: str | None = None,
        join: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Starts the backend; the reply holds the environment, or why there is none.

        `compiled` is the folder in which compiled programs are kept, those of each environment apart; `join` makes this
        process one of several.
        """
        import jax

        self.together.start = {"devices": devices, "x64": x64, "paths": paths, "cores": cores}
        sys.path[:0] = paths
        if cores and hasattr(os, "sched_setaffinity"):  # before the backend starts its threads
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
        try:
            if x64:
                jax.config.update("jax_enable_x64", True)
            if devices:
                jax.config.update("jax_num_cpu_devices", devices)
            if join:
                group.join(**join)
            if backend:
                jax.devices(backend)
                if jax.default_backend() != jax.devices(backend)[0].platform:
                    return self._unavailable(f"JAX runs on {jax.default_backend()} here", backend)
            if join:
                group.meet()
            described = environment.describe()
            if compiled:
                self.programs.keep_in(os.path.join(compiled, environment.digest(described)))
            return {"environment": described, "backends": internals.backends()}
        except Exception as error:  # JAX raises RuntimeError, AssertionError and others when a backend cannot start
            return self._unavailable(describe(error), backend)

    def _unavailable(self, why: str, backend: str | None) -> dict[str, Any]:
        os.environ.pop("JAX_PLATFORMS", None)
        try:
            present = internals.backends()
        except Exception:  # not even the CPU
            present = []
        return {"unavailable": why, "backend": backend, "backends": present}

    def streams(self) -> dict[str, Any]:
        """Fingerprints of the random streams."""
        return {"streams": streams.fingerprints()}

    def probe(self) -> dict[str, Any]:
        """Fingerprints of small programs that options of the compiler change."""
        try:
            return {"probes": probes.probes()}
        except Exception as error:  # an option under which nothing compiles
            return {"reason": describe(error)}

    def prepare(self, recipe: dict[str, Any], alone: bool = False) -> dict[str, Any]:
        """Finds the recipe's functions and cases; `faults` where a name leads nowhere or arguments do not fit.

        `alone`: nothing more will be asked about recipes that were prepared before.
        """
        name = recipe["name"]
        truth.forget_programs()
        if alone:
            self.prepared.clear()
            JITTED.forget()
            self.memory.release()
        try:
            with checks.undisturbed(importing=True), checks.captured_warnings():
                prepared = self.prepared[name] = Prepared(recipe)
        except BadName as error:
            return {"faults": [[None, None, str(error)]], "cases": []}
        faults: list[list[str | None]] = []
        for option in recipe["config"]:
            try:
                internals.config_name(option)
            except ValueError as error:
                faults.append(["config", option, str(error)])
        for case in prepared.case_names():
            given = prepared.factory.get(case) or recipe["cases"].get(case) or {}
            faults += [[case, argument, text] for argument, text in argument_faults(prepared.kernel, list(given))]
        unknown = [case for case in recipe["cases"] if prepared.factory and case not in prepared.factory]
        has = ", ".join(prepared.factory)
        faults += [[case, None, f"the factory has no case {case!r}; it has: {has}"] for case in unknown]
        return {"faults": faults, "cases": prepared.case_names(), "sources": project_sources(recipe["root"])}

    def guess(self, kernel: str, root: str) -> dict[str, Any]:
        """Cases for a function that has none: see `guesses.guess`; or the `fault` of its name."""
        try:
            with checks.undisturbed(), checks.captured_warnings():
                function = resolve(kernel)
                about = (inspect.getdoc(function) or "").partition("\n")[0]
                return {"description": about, **guesses.guess(function, root)}
        except BadName as error:
            return {"fault": str(error)}

    def ambiguous(self, recipe: str, case: str) -> dict[str, Any]:
        """Outputs of the kernel that are not unique, by path; none where it cannot be traced."""
        prepared = self.prepared[recipe]
        try:
            with checks.undisturbed(), checks.captured_warnings(), internals.configured(prepared.recipe["config"]):
                subject = Subject(prepared.kernel, prepared.static, prepared.arguments(case))
                return {"outputs": primitives.ambiguous_outputs(subject)}
        except Exception as error:  # a branch on a value, an argument that cannot be made: other checks say so
            return {"outputs": {}, "reason": describe(error)}

    def check(self, recipe: str, case: str, mode: str, stored: str | None, folder: str, repeat: int) -> dict[str, Any]:
        """One check. `stored` is the golden whose inputs are used: one of this very recipe."""
        prepared, running = self.prepared[recipe], Running()
        changes: dict[str, Any] = {}
        with checks.undisturbed(changes), checks.captured_warnings() as around:
            reply = self._check(prepared, case, mode, stored, folder, repeat)
        raised = reply.get("warnings", [])
        warnings = [*raised, *(warning for warning in around if warning not in raised)]
        return {**reply, "warnings": warnings, "changes": reply.get("changes", {}) | changes, "left": running.left()}

    def assemble(self, recipe: str) -> dict[str, Any]:
        """Starts the processes that the recipe's mode `sharded` runs in, where they do not run; see `Together`."""
        return self.together.assemble(self.prepared[recipe].recipe)

    def check_together(self, limit: float, **request: Any) -> dict[str, Any]:
        """The same check in each of these, within so many seconds."""
        return self.together.check(request, limit)

    def _check(
        self, prepared: Prepared, case: str, mode: str, stored: str | None, folder: str, repeat: int
    ) -> dict[str, Any]:
        try:
            arguments, differ = self._inputs(prepared, case, stored)
        except Exception as error:  # a value that would be lost, too large an array, a golden that went away meanwhile
            return {"outcome": "inputs", "error": checks.error_facts(error)}
        with internals.configured(prepared.recipe["config"]):
            options = prepared.recipe["options"].get(mode)
            companions = partial(self._companions, prepared, case, stored)
            subject = Subject(prepared.kernel, prepared.static, arguments, options, companions)
            with checks.captured_warnings() as raised:
                facts, produced = checks.execute(subject, mode, self.clock)
            facts |= {"inputs_differ": differ, "findings": [], "notes": [], "warnings": raised}
            if produced is not None:
                facts |= self._judge_outputs(prepared, case, mode, arguments, produced, folder)
            if prepared.recipe["deprecations"] == "error":
                facts["findings"] += checks.deprecations(raised)
            if repeat > 1 and (produced is None) == (facts["outcome"] == "raised"):
                facts["findings"] += repeated.differences(subject, mode, repeat, facts, produced, self.clock)
            if mode == "jit" and facts["outcome"] == "value":
                self._examine_jitted(prepared, subject, facts)
        return facts

    def _examine_jitted(self, prepared: Prepared, subject: Subject, facts: dict[str, Any]) -> None:
        """What the traced kernel tells: keys used twice, and whether the same call is traced again."""
        examined = [traces.examine(subject, prepared.recipe["traces"])]
        if not prepared.recipe["allow_key_reuse"]:
            examined.append(keys.examine(subject))
        for findings, notes in examined:
            facts["findings"] += findings
            facts["notes"] += notes

    def _companions(self, prepared: Prepared, case: str, stored: str | None) -> Iterator[tuple[str, Arguments]]:
        """The recipe's other cases, as far as their arguments can be made."""
        for name in prepared.case_names():
            if name != case:
                try:
                    arguments, _ = self._inputs(prepared, name, stored)
                except Exception:  # the finding of a check of its own
                    continue
                yield name, arguments

    def _inputs(self, prepared: Prepared, case: str, stored: str | None) -> tuple[Arguments, list[str]]:
        """The golden's own inputs. Where a factory now makes others, those, and the leaves that differ."""
        arguments = prepared.arguments(case)
        if stored is None:
            return arguments, []
        inputs = prepared.stored_inputs(case, stored)
        differ = arguments.differences(inputs)
        if differ and (prepared.factory or inputs.structure != arguments.structure):
            return arguments, differ
        return arguments.with_stored(inputs), []

    def _judge_outputs(
        self, prepared: Prepared, case: str, mode: str, arguments: Arguments, produced: Produced, folder: str
    ) -> dict[str, Any]:
        try:
            found = checks.hand_over(produced, os.path.join(folder, f"{mode}.npz"))
            if prepared.recipe["compares_inputs"]:
                found["given"] = send_tree(os.path.join(folder, "given.npz"), arguments.tree())
        except BaseException as error:  # an unsupported leaf, a deleted (donated) array, a node's own code, a full disk
            return {"outcome": "raised", "error": checks.error_facts(error)}
        found["violations"] = []
        if mode in DERIVED_MODES:  # these are not the kernel's outputs: neither properties nor reference know them
            return found
        found["violations"] = checks.properties_of(prepared.properties, arguments, produced.outputs)
        if prepared.reference is not None:
            try:
                found["reference"] = prepared.reference_file(case, arguments, folder)
            except BaseException as error:
                found["reference_error"] = describe(error)
        return found

    def export(self, recipe: str, case: str, stored: str | None, folder: str) -> dict[str, Any]:
        """The exported program and the inputs of a case, for a candidate golden."""
        prepared = self.prepared[recipe]
        inputs = os.path.join(folder, "inputs.npz")
        try:
            arguments, _ = self._inputs(prepared, case, stored)
            write_tree(inputs, arguments.tree(), {})
        except Exception as error:  # as in a check; a full disk
            return {"reason": describe(error)}
        reply: dict[str, Any] = {"inputs": inputs, "statics": _plain_statics(arguments)}
        path = Path(folder, "program.bin")
        with checks.undisturbed(), checks.captured_warnings(), internals.configured(prepared.recipe["config"]):
            try:
                path.write_bytes(program.exported(prepared.kernel, arguments))
            except Exception as error:  # callbacks, foreign functions, a kernel that cannot be traced, a full disk
                return {**reply, "reason": describe(error)}
        return {**reply, "program": str(path)}

    def program(self, recipe: str, case: str, mode: str, stored: str | None, folder: str) -> dict[str, Any]:
        """The program that a check runs, for `replay` elsewhere, and its file's sha256; or why there is none."""
        prepared = self.prepared[recipe]
        with checks.undisturbed(), checks.captured_warnings(), internals.configured(prepared.recipe["config"]):
            try:
                units = traceable.export_mode(self._subject(prepared, case, mode, stored), mode)
            except Exception as error:  # callbacks, foreign functions, a kernel that cannot be traced
                return {"reason": describe(error)}
        path = Path(folder, f"{mode}.units.npz")
        return {"program": str(path), "sha256": units.write(path)}

    def replay(
        self, program: str, sha256: str | None, case: str | None, config: dict[str, Any], folder: str
    ) -> dict[str, Any]:
        """The flat outputs of a program, exported here or under another JAX, and a digest of its text as this JAX reads
        it; or why it does not run.

        `program` is a file that the request of that name wrote, run only if its sha256 is this; or a golden, with the
        case whose program is run, which has a digest of its own.
        """
        with checks.undisturbed(), checks.captured_warnings(), internals.configured(replays.known_config(config)):
            try:
                outputs, text = replays.run(Path(program), sha256, case)
            except Exception as error:  # an export of a newer JAX, a target that this runtime does not have
                return {"reason": describe(error)}
        path = os.path.join(folder, "replayed.npz")
        write_tree(path, outputs, {})
        return {"outputs": path, "text": text}

    def equations(self, recipe: str, case: str, mode: str, stored: str | None) -> dict[str, Any]:
        """The traced program of a mode as rows, and the operations that it is lowered to; or why there is none."""
        prepared = self.prepared[recipe]
        with checks.undisturbed(), checks.captured_warnings(), internals.configured(prepared.recipe["config"]):
            try:
                function, flat = traceable.traceable(self._subject(prepared, case, mode, stored), mode)
                rows, mix = equations.equations(function, flat), equations.operations_of(function, flat)
            except Exception as error:
                return {"reason": describe(error)}
        return {"equations": rows, "operations": mix}

    def texts(self, recipe: str, case: str, stored: str | None, golden: str) -> dict[str, Any]:
        """Where the lowered program of a golden's case differs from the kernel's as it is now; or why not known."""
        from jaxcheck.worker import texts  # it needs the dialects of MLIR, which take a while to import

        prepared = self.prepared[recipe]
        with checks.undisturbed(), checks.captured_warnings(), internals.configured(prepared.recipe["config"]):
            try:
                arguments, _ = self._inputs(prepared, case, stored)
                now = program.exported(prepared.kernel, arguments)
                return {"windows": texts.windows(Path(golden), case, now)}
            except Exception as error:  # callbacks, an export that this JAX cannot read
                return {"reason": describe(error)}

    def _walked(self, op: str, recipe: str, case: str, mode: str, stored: str | None, **options: Any) -> dict[str, Any]:
        """A request of `walks` about a mode's program as a function of arrays, and these."""
        from jaxcheck.worker import walks  # most workers never walk, and it costs a tenth of their start

        prepared, work = self.prepared[recipe], walks.WALKS[op](mode, **options)
        # Debugging options stop at what is computed on the way: a NaN that a `where` will hide.
        config = {name: value for name, value in prepared.recipe["config"].items() if "debug" not in name}
        with checks.undisturbed(), checks.captured_warnings(), internals.configured(config):
            try:
                return work(*traceable.traceable(self._subject(prepared, case, mode, stored), mode))
            except Exception as error:  # a branch on a value, a kernel that cannot be traced or has no such mode
                return {"reason": describe(error)}

    def _subject(self, prepared: Prepared, case: str, mode: str, stored: str | None) -> Subject:
        arguments, _ = self._inputs(prepared, case, stored)
        companions = partial(self._companions, prepared, case, stored)
        options = prepared.recipe["options"].get(mode)
        return Subject(prepared.kernel, prepared.static, arguments, options, companions)

    def latency(self, recipe: str, case: str, mode: str, stored: str | None, samples: int) -> dict[str, Any]:
        """Seconds a call takes after warm-up; nothing where the kernel raises."""
        prepared = self.prepared[recipe]
        arguments, _ = self._inputs(prepared, case, stored)
        subject = Subject(prepared.kernel, prepared.static, arguments)
        with checks.undisturbed(), checks.captured_warnings(), internals.configured(prepared.recipe["config"]):
            try:
                return latency.latency(subject, mode, samples, WARMUP, LATENCY_SECONDS)
            except Exception as error:
                return {"reason": describe(error)}

    def truth(self, recipe: str, case: str, stored: str, floor: bool, gradients: bool, folder: str) -> dict[str, Any]:
        """The float64 truth of a case, the reference's own, and how far its outputs wander; for a blessing.

        `gradients`: that of its gradients as well. What cannot be had is left out, and its reason is given.
        """
        prepared = self.prepared[recipe]
        arguments, _ = self._inputs(prepared, case, stored)
        # Debugging options stop at what a shadow computes on the way: a NaN that a `where` will hide.
        config = {name: value for name, value in prepared.recipe["config"].items() if "debug" not in name}
        reply: dict[str, Any] = {}
        with checks.undisturbed(), checks.captured_warnings(), internals.configured(config):
            try:
                tree, facts = truth.float_truth(prepared.kernel, arguments)
                reply |= {"truth": os.path.join(folder, "truth.npz"), "facts": facts}
                write_tree(reply["truth"], tree, {})
            except Exception as error:  # callbacks, foreign functions, what cannot be traced
                reply["reason"] = describe(error)
            if prepared.reference is not None:
                reply["reference"] = prepared.reference_file(case, arguments, folder)
            if floor:
                try:
                    reply["floor"], knobs = truth.noise_and_knobs(prepared.kernel, arguments)
                    reply["measured"] = {"draws": truth.DRAWS, "knobs": knobs}
                except Exception as error:
                    reply["floor_reason"] = describe(error)
            if gradients:
                options = prepared.recipe["options"].get("grad")
                subject = Subject(prepared.kernel, prepared.static, arguments, options)
                reply |= _gradient_truth(subject, floor, folder)
        return reply


def _gradient_truth(subject: Subject, floor: bool, folder: str) -> dict[str, Any]:
    """The float64 truth of a case's gradients and how far they wander, or why it is not known."""
    reply: dict[str, Any] = {}
    function, flat = derivatives.differentiable(subject)
    try:
        tree, _ = truth.shadow_truth(function, flat)
        reply["gradients"] = os.path.join(folder, "gradients.npz")
        write_tree(reply["gradients"], tree, {})
    except Exception as error:
        reply["gradient_reason"] = describe(error)
    if floor:
        try:
            reply["gradient_floor"] = truth.wander(function, flat)
        except Exception as error:
            reply["gradient_floor_reason"] = describe(error)
    return reply


def _plain_statics(arguments: Arguments) -> dict[str, Any]:
    """Static and Python values as the golden's metadata holds them."""
    python = {arguments.leaves[i].path: value for i, value in arguments.python.items()}
    return {name: value if _is_json(value) else repr(value) for name, value in {**arguments.statics, **python}.items()}


def _is_json(value: Any) -> bool:
    return isinstance(value, bool | int | str | None) or (isinstance(value, float) and math.isfinite(value))
