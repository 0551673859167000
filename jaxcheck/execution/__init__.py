"""The parent's side: schedules checks, watches over workers, judges what they hand back. Never imports jax."""
