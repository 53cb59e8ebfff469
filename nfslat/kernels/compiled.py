"""Was nfslat._native built? -> the module for the kernels and the decoder, else None; and what then cannot be done.

Without it tshark decodes, and every kernel has a numpy twin that gives the same. Only what reads packets in ways that
tshark has no output for needs it: `nfslat transport` and `nfslat fleet`.
"""

from __future__ import annotations

from nfslat.errors import UsageError

try:
    from nfslat import _native
except ImportError:
    native = None
else:
    native = _native if hasattr(_native, "spacings") else None  # else of another commit

HOW = "install Rust 1.85 or newer and run scripts/nfslat once, or take a wheel (docs/install.md)"


def is_built() -> bool:
    """Is the compiled decoder there, and the kernels with it?"""
    return native is not None


def refuse_without(what: str) -> None:
    """Raise ``UsageError`` where nothing was compiled; `what` says what is then not to be had."""
    if not is_built():
        raise UsageError(f"{what}, which was not compiled; {HOW}")
