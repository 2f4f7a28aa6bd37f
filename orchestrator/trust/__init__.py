"""Trust: may this tool be called now? Flags, pins, approvals and the audit log."""
