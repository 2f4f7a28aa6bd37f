"""One file a stage; `orchestrator.router` gives their order. Stages never import each other."""
