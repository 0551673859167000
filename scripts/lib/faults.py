"""Measures what the shipped recipes notice: seeded faults must be caught, changes that mean nothing must not.

Three parts, by the real `jaxcheck run` in the modes eager and jit:

faults    each a small change of a copy of the kernels (scripts/seeded/faults.yaml): at least 95 % must be caught, and
          those that are not must say why
rewrites  the same numbers by other roads (scripts/seeded/rewrites.yaml): none may raise an alarm
knobs     the shipped recipes and some large factorisations (scripts/seeded/large.yaml) under other compiler options,
          another instruction set, one core: no alarm

Copies of the kernels that nobody changed must pass. Exits with 0 if all of that holds.

`scripts/faults origins` measures something else: how often `jaxcheck diagnose` names the right equation; and
`scripts/faults kills` what becomes of goldens when commands are killed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import kills
import origins
import yaml
from circumstances import circumstances

from jaxcheck.goldens.store import GoldenStore
from jaxcheck.registry.load import load_registry

ROOT = Path(__file__).resolve().parents[2]
KERNELS = "jaxcheck.kernels"
SEEDED = ROOT / "scripts" / "seeded"
MAIN, BATTERY, LARGE = "recipes.yaml", "recipes/numerics.yaml", "large.yaml"
CONTROL, JOINT = "control", "--"
ENOUGH = 0.95
SLOW = {
    "random-gamma",
    "random-discrete",
    "random-continuous",
    "attention",
    "train-step-mlp",
    "mlp-init",
    "key-discipline",
}
DOTTED = ("kernel", "inputs", "reference")
# What XLA says where it compiled a program, and the instruction set lacks something that it calls.
REFUSED = "JaxRuntimeError: INTERNAL: Failed to materialize symbols"
# What a misspelt change does; a fault that does not run proves nothing.
MISSPELT = ("NameError", "ImportError", "ModuleNotFoundError", "SyntaxError", "AttributeError")


@dataclass(frozen=True)
class Change:
    """A change of one kernel module; `kind` is what happens to the recipes that it concerns."""

    name: str
    kind: Literal["fault", "rewrite", "control"]
    recipes: tuple[str, ...]
    sort: str = ""
    module: str = ""
    old: str = ""
    new: str = ""
    survives: str = ""
    mode: str = ""  # the only one that notices, where it is not jit

    @property
    def package(self) -> str:
        return "seeded_" + self.name.replace("-", "_")


@dataclass(frozen=True)
class Knob:
    """Circumstances that must not matter: XLA's options, and the number of cores (0: all)."""

    name: str
    flags: str = ""
    cores: int = 0


KNOBS = (
    Knob("no FMA, 256 bits wide", "--xla_cpu_max_isa=AVX"),
    Knob("no FMA, 128 bits wide", "--xla_cpu_max_isa=SSE4_2"),
    Knob("no fusion", "--xla_disable_hlo_passes=fusion"),
    Knob("no algebraic simplifier", "--xla_disable_hlo_passes=algsimp"),
    Knob("no excess precision", "--xla_allow_excess_precision=false"),
    Knob("backend optimisation off", "--xla_backend_optimization_level=0"),
    Knob("one core", cores=1),
)
ALL_KNOBS = Knob(
    "no FMA, no fusion, no excess precision",
    "--xla_cpu_max_isa=AVX --xla_disable_hlo_passes=fusion --xla_allow_excess_precision=false",
)


@dataclass(frozen=True)
class Outcome:
    """What became of a change or a knob."""

    name: str
    caught: bool = False
    by: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    moved: int = 0
    checks: int = 0
    refused: tuple[str, ...] = ()  # checks that XLA could not run under a knob


@dataclass
class Report:
    """Everything that was measured, and what is wrong with it."""

    changes: list[tuple[Change, Outcome]] = field(default_factory=list)
    knobs: list[tuple[Knob, Outcome]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def main() -> None:
    if sys.argv[1:2] == ["origins"]:
        origins.main(sys.argv[2:])
    if sys.argv[1:2] == ["kills"]:
        kills.main(sys.argv[2:])
    arguments = parse()
    report = Report()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        chosen = [change for change in seeded(arguments.seeded) if change.kind in arguments.parts]
        if arguments.brief:
            chosen = in_brief(chosen)
        if chosen:
            measure_changes(work / "changes", chosen, arguments, report)
        if "knob" in arguments.parts:
            measure_knobs(work, (ALL_KNOBS,) if arguments.brief else KNOBS, arguments, report)
    print(as_markdown(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(as_data(report), indent=1) + "\n")
    for line in report.wrong:
        print(f"faults: {line}", file=sys.stderr)
    sys.exit(1 if report.wrong else 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="faults, rewrites, knobs (default: all)")
    parser.add_argument("--brief", action="store_true", help="jit alone, every other change, and some knobs at once")
    parser.add_argument("--seeded", type=Path, default=SEEDED, metavar="FOLDER", help="default: scripts/seeded")
    parser.add_argument("-j", "--jobs", type=int, default=2, metavar="N", help="worker processes (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every number there")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - {"faults", "rewrites", "knobs"}:
        parser.error(f"no part is named {', '.join(sorted(unknown))}; there are faults, rewrites, knobs")
    arguments.parts = {part.removesuffix("s") for part in arguments.parts or ("faults", "rewrites", "knobs")}
    return arguments


# ---- Changes ---------------------------------------------------------------------------------------------------------


def seeded(folder: Path) -> list[Change]:
    """The faults and rewrites; each must apply, and each recipe must exist."""
    known = load_registry(ROOT / MAIN).recipes
    found = []
    for kind in ("fault", "rewrite"):
        path = folder / f"{kind}s.yaml"
        blocks = yaml.safe_load(path.read_text()) if path.exists() else {}
        for name, block in blocks.items():
            sort, recipes = block.pop("class"), tuple(block.pop("recipes"))
            change = Change(name=name, kind=kind, recipes=recipes, sort=sort, **block)
            if missing := [recipe for recipe in recipes if recipe not in known]:
                sys.exit(f"{path}: {name}: there is no recipe {missing[0]}")
            compile(changed_text(change), name, "exec")
            found.append(change)
    return found


def in_brief(changes: list[Change]) -> list[Change]:
    """Every other one of those that jit alone can notice, but in recipes that take long to compile."""
    return [change for change in changes if not change.mode and not SLOW & {*change.recipes}][::2]


def changed_text(change: Change) -> str:
    """The module's source with the change; it must apply exactly once."""
    path = ROOT / "jaxcheck" / "kernels" / f"{change.module}.py"
    text = path.read_text()
    if text.count(change.old) != 1:
        sys.exit(
            f"{change.name}: what it changes occurs {text.count(change.old)} times in {path.name}, not once:\n"
            f"{change.old}\nBring `old` in scripts/seeded/{change.kind}s.yaml up to date."
        )
    return text.replace(change.old, change.new)


def measure_changes(folder: Path, changes: list[Change], arguments: argparse.Namespace, report: Report) -> None:
    """One run of all of them: each recipe under a name of its own, with a package of kernels of its own."""
    concerned = sorted({recipe for change in changes for recipe in change.recipes})
    control = Change(CONTROL, "control", tuple(concerned))
    everything = [control, *changes]
    folder.mkdir()
    for change in everything:
        write_kernels(folder, change)
    write_registry(folder, everything)
    write_goldens(folder, everything)
    results = run(folder / MAIN, folder / "goldens", folder, arguments)
    before = {result["id"].partition(JOINT)[2]: fingerprint(result) for result in results if is_control(result)}
    for change in everything:
        mine = [
            result for result in results if result["recipe"] in {named(change, recipe) for recipe in change.recipes}
        ]
        moved = sum(fingerprint(result) != before[result["id"].partition(JOINT)[2]] for result in mine)
        outcome = outcome_of(change.name, mine, moved)
        report.wrong += objections(change, outcome, mine)
        if change.kind != "control":
            report.changes.append((change, outcome))
    faults = [(change, outcome) for change, outcome in report.changes if change.kind == "fault"]
    caught = sum(outcome.caught for _, outcome in faults)
    if caught < ENOUGH * len(faults) and not arguments.brief:
        report.wrong.append(f"{caught} of {len(faults)} faults were caught, fewer than {ENOUGH:.0%}")


def is_control(result: dict[str, Any]) -> bool:
    return bool(result["id"].startswith(CONTROL + JOINT))


def named(change: Change, recipe: str) -> str:
    return f"{change.name}{JOINT}{recipe}"


def write_kernels(folder: Path, change: Change) -> None:
    """A copy of the package under another name, with the change."""
    source = ROOT / "jaxcheck" / "kernels"
    for path in source.rglob("*.py"):
        name = path.relative_to(source)
        text = changed_text(change) if str(name.with_suffix("")) == change.module else path.read_text()
        copy = folder / change.package / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text.replace(KERNELS, change.package))


def write_registry(folder: Path, changes: Iterable[Change]) -> None:
    """Both files of the shipped registry, with the same defaults, and in each the recipes that came from it."""
    for file in (MAIN, BATTERY):
        blocks = yaml.safe_load((ROOT / file).read_text())
        shipped = blocks["recipes"]
        blocks["recipes"] = {
            named(change, recipe): moved(shipped[recipe], change)
            for change in changes
            for recipe in change.recipes
            if recipe in shipped
        }
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(blocks, sort_keys=False))


def moved(block: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """A recipe whose kernel, inputs, reference and properties come from the changed package."""
    names = {key: value.replace(KERNELS, change.package) for key, value in block.items() if key in DOTTED}
    properties = [name.replace(KERNELS, change.package) for name in block.get("properties", ())]
    return {**block, **names, **({"properties": properties} if properties else {})}


def write_goldens(folder: Path, changes: Iterable[Change]) -> None:
    """The shipped goldens under the new names. A case's hash names the kernel, so it is that of the new recipe."""
    recipes = load_registry(folder / MAIN).recipes
    shipped, store = GoldenStore(ROOT / "goldens"), GoldenStore(folder / "goldens")
    for change in changes:
        for recipe in change.recipes:
            golden = shipped.load(recipe)
            if golden is None:
                sys.exit(f"there is no golden of {recipe}: jaxcheck bless {recipe} --reason '...'")
            new = recipes[named(change, recipe)]
            with golden:
                cases = {
                    case: dataclasses.replace(golden.case(case), hash=new.case_hash(case)) for case in golden.cases
                }
                store.save(new.name, cases)


def objections(change: Change, outcome: Outcome, results: list[dict[str, Any]]) -> list[str]:
    """What must not be, about one change."""
    found = []
    if not outcome.checks:
        found.append(f"{change.name}: none of its recipes was verified")
    broken = [result for result in results if is_void(result)]
    if broken:
        found.append(f"{change.name}: did not run: {broken[0]['id']}: {broken[0]['reason']}")
    if change.kind != "fault" and outcome.alarms:
        found.append(f"{change.name}: false alarm: {outcome.alarms[0]}")
    if change.kind == "rewrite" and not outcome.moved:
        found.append(f"{change.name}: moved no bit of anything, so it shows nothing")
    if change.kind == "fault" and not outcome.caught and not change.survives:
        found.append(f"{change.name}: nothing notices it, and `survives` does not say why")
    if change.kind == "fault" and outcome.caught and change.survives:
        found.append(f"{change.name}: is noticed by now ({', '.join(outcome.by)}): drop its `survives`")
    return found


def is_void(result: dict[str, Any]) -> bool:
    """The check failed for the sake of this script, not of the fault."""
    misspelt = any(result["reason"].startswith(f"{name}:") for name in MISSPELT)
    return result["status"] in ("missing", "stale", "crash", "timeout") or (result["status"] == "error" and misspelt)


# ---- Knobs -----------------------------------------------------------------------------------------------------------


def measure_knobs(work: Path, knobs: Iterable[Knob], arguments: argparse.Namespace, report: Report) -> None:
    """The shipped recipes and large ones under each knob; what moved is told by a plain run on the same machine."""
    quick = [name for name in load_registry(ROOT / MAIN).recipes if name not in SLOW] if arguments.brief else []
    bless(SEEDED / LARGE, work / "large", work)

    def results_under(knob: Knob | None) -> list[dict[str, Any]]:
        shipped = run(ROOT / MAIN, ROOT / "goldens", work, arguments, knob, quick)
        return shipped + run(SEEDED / LARGE, work / "large", work, arguments, knob)

    plain = results_under(None)
    report.wrong += [f"plain run: {alarm}" for alarm in outcome_of("plain", plain).alarms]
    for knob in knobs:
        every = results_under(knob)
        results = [result for result in every if not is_refused(result)]
        refused = tuple(f"{result['id']}: {result['reason']}" for result in every if is_refused(result))
        outcome = outcome_of(knob.name, results, moved_checks(plain, results))
        report.knobs.append((knob, dataclasses.replace(outcome, refused=refused)))
        report.wrong += [f"{knob.name}: false alarm: {alarm}" for alarm in outcome.alarms]
        if not outcome.moved:
            report.wrong.append(f"{knob.name}: moved no bit of anything, so it shows nothing")


def is_refused(result: dict[str, Any]) -> bool:
    """XLA has no code for this program under the knob: jaxcheck tells an error, and there are no numbers."""
    return bool(result["status"] == "error" and REFUSED in result["reason"])


def moved_checks(plain: list[dict[str, Any]], results: list[dict[str, Any]]) -> int:
    """The checks whose distance to golden, reference or other mode is not the plain run's: other bits for certain."""
    before = {result["id"]: fingerprint(result) for result in plain}
    return sum(fingerprint(result) != before[result["id"]] for result in results)


def fingerprint(result: dict[str, Any]) -> list[Any]:
    groups = [result["leaves"], *result["against"].values()]
    return [(leaf["path"], leaf["bit_equal"], leaf["max_abs"], leaf["max_rel"]) for group in groups for leaf in group]


# ---- Running ---------------------------------------------------------------------------------------------------------


def run(
    registry: Path,
    goldens: Path,
    work: Path,
    arguments: argparse.Namespace,
    knob: Knob | None = None,
    recipes: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """The results of the real command; its exit code must be one of a run that was carried out."""
    output = work / "report.json"
    output.unlink(missing_ok=True)
    command = [sys.executable, "-m", "jaxcheck", "run", *recipes, "--quiet", "-j", str(arguments.jobs)]
    command += ["--registry", str(registry), "--goldens", str(goldens), "--state", str(work / "state")]
    command += ["--output", str(output), "--mode", "jit", *([] if arguments.brief else ["--mode", "eager"])]
    done = subprocess.run(
        command,
        cwd=work,
        env=environment(knob),
        text=True,
        capture_output=True,
        check=False,
        preexec_fn=(lambda: keep_cores(knob.cores)) if knob and knob.cores else None,
    )
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    results: list[dict[str, Any]] = json.loads(output.read_text())["results"]
    return [result for result in results if result["status"] != "skip"]


def bless(registry: Path, goldens: Path, work: Path) -> None:
    """Goldens of a registry that has none, made on this machine."""
    command = [sys.executable, "-m", "jaxcheck", "bless", "--no-truth", "--reason", "made to be compared with", "--yes"]
    command += ["--registry", str(registry), "--goldens", str(goldens), "--state", str(work / "state")]
    done = subprocess.run(command, cwd=work, env=environment(None), text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")


def environment(knob: Knob | None) -> dict[str, str]:
    ours = ("JAXCHECK_", "JAX_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith(ours)}
    kept.pop("XLA_FLAGS", None)
    return kept | ({"XLA_FLAGS": knob.flags} if knob and knob.flags else {})


def keep_cores(count: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def outcome_of(name: str, results: list[dict[str, Any]], moved: int = 0) -> Outcome:
    odd = [result for result in results if result["status"] != "pass"]
    kinds = {finding["kind"] for result in odd for finding in result["findings"]}
    return Outcome(
        name,
        caught=bool(odd),
        by=tuple(sorted(kinds)),
        alarms=tuple(f"{result['id']} {result['status']}: {result['reason']}" for result in odd),
        moved=moved,
        checks=len(results),
    )


# ---- Reporting -------------------------------------------------------------------------------------------------------


def as_markdown(report: Report) -> str:
    lines = [circumstances(), ""]
    faults = [(change, outcome) for change, outcome in report.changes if change.kind == "fault"]
    if faults:
        caught = [outcome for _, outcome in faults if outcome.caught]
        by_golden = sum("golden" in outcome.by for outcome in caught)
        recipes = {recipe for change, _ in faults for recipe in change.recipes}
        classes = {change.sort.partition(" (")[0] for change, _ in faults}
        lines += [
            f"{len(faults)} faults of {len(classes)} kinds in {len(recipes)} recipes, {len(caught)} caught "
            f"({len(caught) / len(faults):.1%}), {by_golden} of them by a golden.",
            "",
            "| fault that survives | what it is | why nothing notices |",
            "|---|---|---|",
            *(f"| {c.name} | {c.sort} | {c.survives or '?'} |" for c, outcome in faults if not outcome.caught),
            "",
        ]
    lines += table(
        "rewrite", [(change.name, outcome) for change, outcome in report.changes if change.kind == "rewrite"]
    )
    lines += table("knob", [(knob.name, outcome) for knob, outcome in report.knobs])
    lines += [f"not run under {knob.name}: {text}" for knob, outcome in report.knobs for text in outcome.refused]
    return "\n".join(lines).rstrip()


def table(heading: str, rows: list[tuple[str, Outcome]]) -> list[str]:
    if not rows:
        return []
    body = [f"| {name} | {each.checks} | {each.moved} | {len(each.alarms)} |" for name, each in rows]
    return [f"| {heading} | checks | moved | alarms |", "|---|---|---|---|", *body, ""]


def as_data(report: Report) -> dict[str, Any]:
    rows = [
        {"kind": change.kind, "class": change.sort, "survives": change.survives, **dataclasses.asdict(outcome)}
        for change, outcome in report.changes
    ]
    rows += [{"kind": "knob", "flags": knob.flags, **dataclasses.asdict(outcome)} for knob, outcome in report.knobs]
    return {"circumstances": circumstances(), "wrong": report.wrong, "rows": rows}


if __name__ == "__main__":
    main()
