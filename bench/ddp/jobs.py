"""The ranks of the training benchmark over one library: processes that take orders together.

An order is a line of JSON on a rank's standard input, its answer one on its standard output.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

GRACE_S = 5.0
"""Survivors report a dead rank within 2 s; then nothing more is to be learnt."""
_SHARE = re.compile(r"ends: (\d+) calls of (\d+) bytes ran on Sennit, (\d+) were passed on")


class JobFailed(Exception):
    """A rank ended or did not answer; the text holds the last lines of all."""


class Job:
    """The processes. Used as a context manager, which leaves none."""

    def __init__(
        self, folder: Path, ranks: int, command: list[str], variables: dict[str, str] | None = None
    ) -> None:
        """Say what shall run as each rank, with what in its environment; the folder is its own."""
        self._folder = folder
        self._ranks = ranks
        self._answers: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        self._processes: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []
        self._command = command
        self._variables = variables or {}

    def start(self, library: Path | None, threads: int | None) -> Job:
        """Start the ranks; `library` is preloaded, `threads` limits what a rank computes with."""
        for rank in range(self._ranks):
            with self._log(rank).open("wb") as log:
                process = subprocess.Popen(
                    self._command,
                    env=self._environment(rank, library, threads),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            self._processes.append(process)
            reader = threading.Thread(target=self._attend, args=(rank, process), daemon=True)
            reader.start()
            self._readers.append(reader)
        return self

    def __enter__(self) -> Job:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs."""
        for process in self._processes:
            process.kill()
            process.wait()
        for reader in self._readers:
            reader.join()
        self._hang_up()

    def order(self, what: str, limit_s: float, **words: Any) -> list[dict[str, Any]]:
        """Give one order to all ranks; their answers, by rank.

        Raises:
            JobFailed: A rank ended, or did not answer in time.
        """
        self.send(what, **words)
        return self.answers(limit_s)

    def send(self, what: str, **words: Any) -> None:
        """Give one order to all ranks, which `answers` waits for."""
        line = json.dumps({"do": what, **words}) + "\n"
        for process in self._processes:
            # One that has ended is found when answers are awaited.
            with contextlib.suppress(BrokenPipeError):
                assert process.stdin is not None
                process.stdin.write(line)
                process.stdin.flush()

    def answers(self, limit_s: float) -> list[dict[str, Any]]:
        """What each rank says to the last order.

        Raises:
            JobFailed: A rank ended, or did not answer in time.
        """
        found: dict[int, dict[str, Any]] = {}
        ended: set[int] = set()
        end = time.monotonic() + limit_s
        while len(found) < self._ranks and len(ended) < self._ranks and time.monotonic() < end:
            try:
                rank, answer = self._answers.get(timeout=0.5)
            except queue.Empty:
                continue
            if answer is not None:
                found[rank] = answer
            else:
                ended.add(rank)
                end = min(end, time.monotonic() + GRACE_S)
        if len(found) < self._ranks:
            raise JobFailed(self._last_words(sorted(set(range(self._ranks)) - set(found))))
        return [found[rank] for rank in range(self._ranks)]

    def end(self, limit_s: float) -> None:
        """Let the ranks end by themselves.

        Raises:
            JobFailed: One did not, or with an error.
        """
        self._hang_up()
        end = time.monotonic() + limit_s
        for rank, process in enumerate(self._processes):
            try:
                code = process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                code = None
            if code != 0:
                raise JobFailed(self._last_words([rank]))

    def share(self) -> dict[str, int]:
        """Calls and bytes, as the library has counted them at the end of each communicator."""
        total = {"calls": 0, "bytes": 0, "passed_on": 0}
        for log in self._folder.glob("sennit-*.log"):
            for numbers in _SHARE.findall(log.read_text(errors="replace")):
                for key, number in zip(total, numbers, strict=True):
                    total[key] += int(number)
        return total

    def _environment(self, rank: int, library: Path | None, threads: int | None) -> dict[str, str]:
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(self._ranks)}
        env.update(self._variables)
        env["PYTHONFAULTHANDLER"] = "1"  # a crash says where it was
        env["SENNIT_NCCL_FALLBACK_LIB"] = "none"
        env.update(SENNIT_DEBUG="INFO", SENNIT_DEBUG_SUBSYS="nccl")
        env["SENNIT_DEBUG_FILE"] = str(self._folder / f"sennit-{rank}.log")
        if threads is not None:
            env["OMP_NUM_THREADS"] = str(threads)
        if library is not None:
            env["LD_PRELOAD"] = str(library)
        return env

    def _log(self, rank: int) -> Path:
        return self._folder / f"{rank}.log"

    def _hang_up(self) -> None:
        """Give no further orders, which is what a rank ends after."""
        for process in self._processes:
            with contextlib.suppress(BrokenPipeError):
                assert process.stdin is not None
                process.stdin.close()

    def _attend(self, rank: int, process: subprocess.Popen[str]) -> None:
        """Pass on what one rank answers, and its end; libraries print lines of their own."""
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                if line.startswith("{"):
                    self._answers.put((rank, json.loads(line)))
        process.wait()  # so that its exit code is known to whoever learns of its end
        self._answers.put((rank, None))

    def _last_words(self, silent: list[int]) -> str:
        texts = []
        for rank in silent:
            code = self._processes[rank].poll()
            how = "did not answer in time" if code is None else f"ended with code {code}"
            lines = self._log(rank).read_text(errors="replace").splitlines()[-12:]
            texts.append("\n  ".join([f"rank {rank} of {self._ranks} {how}:", *lines]))
        return "\n".join(texts)
