"""Look for files that break the reader, guided by which of its lines they reach:  python -m benchmarks.fuzz_guided [S]

Runs for S seconds, 120 unless named, from the small pictures of every kind that `benchmarks.fuzz` breaks blindly. Needs
`pip install atheris` (Python 3.11 to 3.13 on Linux). Ends with status 0 where nothing but our own errors came up.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

SECONDS = 120
MAX_FILE_BYTES = 8192
MEMORY_MIB = 4096
TIMEOUT_S = 30


def main() -> None:
    try:
        import atheris
    except ImportError:
        sys.exit("Guided fuzzing needs atheris; install it with: pip install atheris")
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with atheris.instrument_imports(include=["gpen_core.photo", "PIL"]):
        from benchmarks.mutations import check, seeds
    with tempfile.TemporaryDirectory() as folder:
        corpus, scratch = Path(folder, "corpus"), Path(folder, "scratch")
        corpus.mkdir()
        scratch.mkdir()
        for name, content in seeds().items():
            (corpus / name.replace(" ", "-")).write_bytes(content)

        def try_one(content: bytes) -> None:
            check(content, scratch)

        limits = [f"-max_len={MAX_FILE_BYTES}", f"-rss_limit_mb={MEMORY_MIB}", f"-timeout={TIMEOUT_S}"]
        quiet = [f"-artifact_prefix={folder}/", f"-max_total_time={seconds}", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *limits, *quiet, str(corpus)], try_one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
