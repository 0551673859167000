"""A worker that is asked about one recipe; what it cannot answer comes back as a reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxcheck.errors import GoldenError, Unavailable
from jaxcheck.execution.conduct import recipe_message
from jaxcheck.execution.process import Death, Launch, Needs
from jaxcheck.execution.session import Session
from jaxcheck.goldens.exchange import read_tree
from jaxcheck.goldens.leaf import Tree
from jaxcheck.registry.model import Recipe
from jaxcheck.results import Environment


class Asker:
    """One worker and one recipe. `config` is added to the recipe's own."""

    def __init__(
        self,
        launch: Launch,
        needs: Needs,
        root: str,
        recipe: Recipe,
        folder: Path,
        timeout: float,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._session = Session(launch, needs)
        self._recipe, self._root, self._folder, self._timeout = recipe, root, folder, timeout
        self._config = dict(config or {})
        self._generation = -1
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    @property
    def environment(self) -> Environment | None:
        """Known once it has been asked something."""
        return self._session.environment

    def ask(self, op: str, *, timeout: float | None = None, **message: Any) -> dict[str, Any]:
        """The answer to a request; `{"reason": ...}` where the worker does not start, dies or cannot."""
        try:
            self._session.start()
        except Unavailable as error:
            return {"reason": str(error).splitlines()[0]}
        reason = self._prepare()
        if reason:
            return {"reason": reason}
        reply = self._session.request({"op": op, **message}, timeout or self._timeout)
        self._session.output()
        return {"reason": reply.reason} if isinstance(reply, Death) else reply

    def of_case(self, op: str, case: str, *, timeout: float | None = None, **message: Any) -> dict[str, Any]:
        """The same about a case of the recipe."""
        return self.ask(op, timeout=timeout, recipe=self._recipe.name, case=case, **message)

    def outputs(self, case: str, mode: str, stored: str | None) -> Tree | str:
        """What a check gives, or why it gives nothing."""
        folder = self._folder / mode
        folder.mkdir(exist_ok=True)
        reply = self.of_case("check", case, mode=mode, stored=stored, folder=str(folder), repeat=1)
        return _tree(reply, "outputs")

    def replay(self, program: Path, case: str) -> Tree | str:
        """What a golden's own program gives here at its own inputs, or why nothing."""
        config = {
            name: value for name, value in self._recipe.config.items() if name.removeprefix("jax_") != "enable_x64"
        }
        request: dict[str, Any] = {"program": str(program), "sha256": None, "config": config | self._config}
        return _tree(self.ask("replay", case=case, folder=str(self._folder), **request), "outputs")

    def _prepare(self) -> str:
        """Makes the worker know the recipe; why it cannot, or nothing."""
        if self._generation == self._session.generation:
            return ""
        message = recipe_message(self._recipe, self._root)
        message["config"] = {**message["config"], **self._config}
        reply = self._session.request({"op": "prepare", "recipe": message}, self._timeout)
        if isinstance(reply, Death):
            return reply.reason
        self._generation = self._session.generation
        return "; ".join(text for case, _, text in reply["faults"] if case in (None, "config"))


def _tree(reply: Mapping[str, Any], name: str) -> Tree | str:
    if name not in reply:
        error = reply.get("error", {})
        return str(reply.get("reason") or f"it raised {error.get('type', 'an error')}: {error.get('message', '')}")
    try:
        return read_tree(reply[name])[0]
    except GoldenError as error:
        return str(error)
