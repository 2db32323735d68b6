"""Why a model file cannot be used, found before llama.cpp sees it. One family, one plain sentence each."""


class ModelFileError(Exception):
    """The model file cannot be used. `path` is the file as it was named; `str()` is the whole sentence."""

    def __init__(self, path: str, sentence: str) -> None:
        super().__init__(f"{path}: {sentence}")
        self.path = path
        self.sentence = sentence


class ModelFileMissing(ModelFileError):
    """There is no file at this path, or a part of a split model is not beside it."""


class ModelFileUnreadable(ModelFileError):
    """The path leads to what cannot be read as a file: no permission, a directory, a pipe, an I/O error."""


class ModelFileNotGguf(ModelFileError):
    """A readable file that is not GGUF, or a GGUF of a version or byte order that llama.cpp does not load."""


class ModelFileTruncated(ModelFileError):
    """The file ends before its own header says that it does: most often an interrupted copy or download."""


class ModelFileMalformed(ModelFileError):
    """A GGUF file that contradicts itself or exceeds what any real model needs."""
