"""What is safe to open: canonical JSON, model files, states, checkpoints."""
