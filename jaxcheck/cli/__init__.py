"""Thin verbs: parse, build, execute, exit. What a verb needs is imported when it runs, so that `--help` is instant."""
