"""`python -m jaxcheck` works as `jaxcheck` does."""

from jaxcheck.cli.main import entry

entry()
