"""nfslat._native, the compiled decoder and kernels -> the module; or why it is not there.

Whatever needs it imports it from here: a module that is missing, or of another commit, is then one line, no traceback.
"""

from __future__ import annotations

from nfslat.errors import ToolError

_HOW = "install Rust 1.85 or newer and run scripts/nfslat once, or take a wheel (docs/install.md)"

try:
    from nfslat import _native as native
except ImportError as problem:
    raise ToolError(f"the decoder of nfslat was not compiled; {_HOW}") from problem
if not hasattr(native, "by_reply"):
    raise ToolError(f"the decoder of nfslat is that of another version; {_HOW}")

__all__ = ["native"]
