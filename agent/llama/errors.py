"""How llama.cpp says no. It returns NULL and logs why; the reason it logged becomes part of the sentence."""


class ModelCannotBeLoaded(Exception):
    """llama.cpp did not load the model file."""


class ModelLoadAborted(Exception):
    """Loading was given up because its progress callback asked for that."""


class ContextCannotBeCreated(Exception):
    """No context with these parameters: slots cannot start."""
