"""Commands that use Temporal: `run`, `runs`, `worker`."""
