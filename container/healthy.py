"""Status 0 where the page answers."""

import sys
from urllib.request import ProxyHandler, build_opener

# Past any proxy: the page is on this machine.
with build_opener(ProxyHandler({})).open("http://127.0.0.1:7860/", timeout=5) as answer:
    sys.exit(0 if answer.status == 200 else 1)
