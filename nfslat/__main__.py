"""``python -m nfslat``: the same as the nfslat command."""

from nfslat.cli import main

raise SystemExit(main())
