"""What it costs an agent to answer the demo questions: a policy in code instead of a model."""
