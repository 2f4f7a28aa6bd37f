"""Inside `orchestrator.testing`: what the scripted model may say, and how it is said over HTTP."""
