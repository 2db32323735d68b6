"""What a constraint may cost: to read, to compile, to keep and to run. The numbers were measured; see each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConstraintLimits:
    """Bounds of one compiler. CPU seconds are those of the thread that computes: a busy machine is nobody's fault."""

    # Reading and compiling

    text_bytes: int = 1 << 20
    answer_seconds: float = 1.0
    """How long somebody waits for a compile, on the clock. What takes longer is refused and finishes alone."""
    fault_search_seconds: float = 0.6
    """Until when, after a compile began, parts of a schema that the library refused are tried alone, for the path of
    the innermost one. On the clock, since somebody waits; then the path is that of the part that was found by then."""
    threads: int = 2
    """Compiles at a time: they compete with the engine for cores."""
    overdue_threads: int = 2
    """Threads that may be left alone with a compile that took too long, on top of `threads`."""
    stack_bytes: int = 64 << 20
    """llguidance recurses: 4,000 rules in a chain overflow the usual 8 MiB, and that ends the process. Our own limits
    on depth are far below either; address space is free until it is touched."""

    # Keeping

    cache_entries: int = 256
    cache_bytes: int = 256 << 20
    refused_entries: int = 256
    refused_bytes: int = 4 << 20

    worn_seconds: float = 0.5
    """CPU of masks after which a form is compiled anew, beside the requests that go on with the old one: its lexer
    learns up to 470,000 states a second (ordinary grammars: some thousand in all) and must not reach its limit."""

    # The library's own bounds (it would allow 1,000,000 steps)

    lexer_states: int = 250_000
    """Of all walks through one compiled form together; 0.4 kB each."""
    lexer_steps: int = 300_000
    """Fuel for the first look at the terminals. `a{1000000}` takes 103 MB with 1,000,000 and 34 MB with this, a `const`
    of a megabyte 195 MB and 80 MB; an enum of 20,000 words of 40 letters passes."""

    # The trial run after compiling

    first_mask_seconds: float = 0.3
    """CPU of the first mask. Later ones need little of it: the copies share what it computed."""
    step_seconds: float = 0.06
    """CPU of any later step. It delays the tokens of every other request: a plain token takes 16 ms."""
    trial_tokens: int = 24
    """`((a{0,1000}){0,1000}){0,1000}` fails after 3 to 13 tokens, after a compile of 2 ms."""
    trial_seconds: float = 0.012
    """CPU of the whole trial run, so that a compile of 10 kB stays below 50 ms."""

    # Generating

    run_seconds: float = 2.0
    run_seconds_per_token: float = 0.025
    """CPU that one request's walk may have used after n tokens: run_seconds + n * run_seconds_per_token. Ambiguous
    grammars grow slower with each token (23 ms a mask at first, 170 ms at token 109)."""
