"""A flag that a running decode looks at, thousands of times a second, without taking the GIL.

`ggml_abort_callback` is `bool (*)(void *)`. A Python callback takes the GIL at each node of the graph. With nothing
beside it that costs nothing visible; beside a Python thread that never rests, one-token steps of the demo model took
about 1.5 times as long (one run, alternating, on a loaded machine: medians 105 ms, against 66 and 71 with this flag
and with none). `strlen` has a fitting shape: 0 for an empty string (go on), 1 for a string of one byte (stop). So the
flag is a C string. The price: nobody is told that the callback was called, so it is no sign of progress.
"""

import ctypes

import llama_cpp

_GO_ON = b"\0"
_STOP = b"\1"


class AbortFlag:
    """Set from any thread; read by llama.cpp. Must outlive the context that it is given to."""

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(2)  # one byte and its terminator
        self._strlen = ctypes.cast(ctypes.CDLL(None).strlen, llama_cpp.ggml_abort_callback)

    @property
    def callback(self) -> object:
        """The function to give to llama.cpp, with `data` as its argument."""
        return self._strlen

    @property
    def data(self) -> ctypes.c_void_p:
        """Address of the flag."""
        return ctypes.cast(self._text, ctypes.c_void_p)

    @property
    def is_set(self) -> bool:
        """Whether a decode would stop now."""
        return self._text[0] != _GO_ON

    def set(self) -> None:
        """Stop the running decode, and any that starts before `clear`."""
        self._text[0] = _STOP

    def clear(self) -> None:
        """Let decodes run again."""
        self._text[0] = _GO_ON
