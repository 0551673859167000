"""The peer: what people do today, pytest with pytest-regressions."""

import jax
import kernels
import numpy as np
import pytest
from cases import flat

CHECKS = flat()


@pytest.mark.parametrize("mode", ["eager", "jit"])
@pytest.mark.parametrize(("name", "case", "args"), CHECKS, ids=[f"{c[0]}-{c[1]}" for c in CHECKS])
def test_golden(name, case, args, mode, ndarrays_regression):
    kernel = getattr(kernels, name)
    run = jax.jit(kernel) if mode == "jit" else kernel
    leaves = [np.atleast_1d(np.asarray(leaf)) for leaf in jax.tree.leaves(run(**args))]
    ndarrays_regression.check(
        {str(i): leaf for i, leaf in enumerate(leaves)},
        basename=f"{name}-{case}",
        default_tolerance={"rtol": 1e-5, "atol": 1e-5},
    )
