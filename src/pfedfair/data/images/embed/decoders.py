"""Threads that decode images ahead of the model, without taking its cores from it."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Condition
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Decoders:
    """As many threads as the model has; while it computes, only as many as there are idle cores.

    More would make the model's threads wait for one another, which costs more than it gains.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.idle = min(max(cores() - threads, 0), threads)
        self._allowed = threads
        self._running = 0
        self._changed = Condition()

    @contextmanager
    def model_computes(self) -> Iterator[None]:
        self._allow(self.idle)
        try:
            yield
        finally:
            self._allow(self.threads)

    def map(self, work: Callable[[T], U], items: Iterable[T], most: int) -> Iterator[U]:
        """Yield results in order; at most `most` are waiting, which bounds the memory."""
        waiting: deque[Future[U]] = deque()
        with ThreadPoolExecutor(self.threads) as pool:
            try:
                for item in items:
                    waiting.append(pool.submit(self._in_turn, work, item))
                    if len(waiting) >= most:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                self._allow(self.threads)
                pool.shutdown(wait=False, cancel_futures=True)

    def _in_turn(self, work: Callable[[T], U], item: T) -> U:
        with self._changed:
            self._changed.wait_for(lambda: self._running < self._allowed)
            self._running += 1
        try:
            return work(item)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _allow(self, threads: int) -> None:
        with self._changed:
            self._allowed = threads
            self._changed.notify_all()


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
