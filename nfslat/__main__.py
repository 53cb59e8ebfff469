"""``python -m nfslat``: the same as the nfslat command."""

from nfslat.cli.main import main

raise SystemExit(main())
