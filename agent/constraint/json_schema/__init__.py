"""JSON Schema, checked and rewritten into the part of it that the constraint library enforces exactly."""

from agent.constraint.json_schema.options import OPTIONS
from agent.constraint.json_schema.preparation import path_of_fault, prepare_schema

__all__ = ["OPTIONS", "path_of_fault", "prepare_schema"]
