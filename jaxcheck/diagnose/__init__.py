"""Where did it start? A ladder of comparisons, from the environment down to one equation."""
