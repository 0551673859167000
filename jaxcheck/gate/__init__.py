"""The upgrade gate: two environments, two runs, what moved between them, and who moved it."""
