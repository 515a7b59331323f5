"""The most memory that a network's intermediate results take at once; weights do not count."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MIB = 2**20


def peak_activation_mib(run: Callable[[], object], device: torch.device) -> float:
    """MiB at the peak of `run`, above what is there before it.

    On CUDA what torch allocated, its convolutions' workspaces included. On a CPU the sizes of all living results of
    torch's operations; what an operation takes and gives back within itself is not seen, and neither is compiled code.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return (torch.cuda.max_memory_allocated(device) - before) / MIB
    counter = ActivationCounter()
    with counter:
        run()
    return counter.peak_bytes / MIB


class ActivationCounter:
    """Follows the storage of every tensor that an operation creates until nothing holds it any more.

    Counts inside its `with` block, also what threads do that are started there.
    """

    def __init__(self) -> None:
        self.live_bytes = 0
        self.peak_bytes = 0
        self._known: set[int] = set()
        # Re-entrant: following a tensor can set off the collection, and forgetting, of others.
        self._lock = threading.RLock()
        self._open = ExitStack()

    def __enter__(self) -> ActivationCounter:
        run_thread = threading.Thread.run

        def run_counted(thread: threading.Thread) -> None:
            with _Watch(self):
                run_thread(thread)

        # torch keeps its modes for each thread, and our fast generator starts its own.
        self._open.enter_context(patch.object(threading.Thread, "run", run_counted))
        self._open.enter_context(_Watch(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    def follow(self, tensor: Tensor) -> None:
        """Count a tensor's storage, once, from now until it is freed."""
        storage = tensor.untyped_storage()
        identity, size = _identity(tensor), storage.nbytes()
        with self._lock:
            if identity in self._known:
                return
            self._known.add(identity)
            self.live_bytes += size
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            weakref.finalize(storage, self._forget, identity, size)

    def _forget(self, identity: int, size: int) -> None:
        with self._lock:
            self._known.discard(identity)
            self.live_bytes -= size


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Shows a counter every result of an operation that is not one of its arguments in another form."""

    def __init__(self, counter: ActivationCounter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._counter = counter

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        # Views and in-place results share their storage with an argument; so do all forms in which weights appear.
        given = {_identity(tensor) for tensor in _stored_tensors((args, kwargs))}
        for tensor in _stored_tensors(result):
            if _identity(tensor) not in given:
                self._counter.follow(tensor)
        return result


def _stored_tensors(tree: Any) -> list[Tensor]:
    """The tensors in nested arguments that have plain memory; prepared weights of oneDNN have not."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor) and leaf.layout == torch.strided]


def _identity(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
