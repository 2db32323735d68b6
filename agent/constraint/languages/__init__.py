"""Front ends: each text language becomes the tree (`agent.constraint.tree`)."""
