"""`python -m lagoon.openai`."""

import sys

from lagoon.openai.command import main

sys.exit(main())
