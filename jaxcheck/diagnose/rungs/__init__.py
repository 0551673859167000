"""The ladder, as a table: each rung says what it compared and what it found, fed with the stored values below it."""

from __future__ import annotations

from functools import partial

from jaxcheck.diagnose.rungs.causes import cause_matrix, knobs
from jaxcheck.diagnose.rungs.compiled import inside, jit_against_eager
from jaxcheck.diagnose.rungs.fair import data, environment, keys, signature
from jaxcheck.diagnose.rungs.first import first_equation
from jaxcheck.diagnose.rungs.otherwise import backend, of_mode
from jaxcheck.diagnose.rungs.programs import program
from jaxcheck.diagnose.rungs.row import Rung
from jaxcheck.diagnose.rungs.stages import other_stages, stage
from jaxcheck.diagnose.scopes import GRADIENTS

# The ladder. The first four say whether the comparison is fair; only a rung that fails with good inputs decides.
RUNGS: tuple[tuple[str, Rung], ...] = (
    ("environment", environment),
    ("data", data),
    ("keys", keys),
    ("signature", signature),
    ("program", program),
    ("forward", partial(stage, "forward")),
    ("loss", partial(stage, "loss")),
    (GRADIENTS, partial(stage, GRADIENTS)),
    ("update", partial(stage, "update")),
    ("other scopes", other_stages),
    ("jit against eager", jit_against_eager),
    ("vmap", partial(of_mode, "vmap")),
    ("sharded", partial(of_mode, "sharded")),
    ("backend", backend),
    ("cause matrix", cause_matrix),
    ("knobs", knobs),
    ("first equation", first_equation),
    ("inside the compiled function", inside),
)
FAIR = 4  # rungs that are climbed even where nothing diverges: whether the comparison is fair
