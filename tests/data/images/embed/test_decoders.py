"""Decoding ahead: in order, few at a time, and out of the model's way."""

import threading
import time

import pytest

from pfedfair.data.images.embed import decoders
from pfedfair.data.images.embed.decoders import Decoders


def test_results_come_in_order_and_few_are_ahead():
    begun, taken, ahead = [], 0, []

    def work(item):
        begun.append(item)
        time.sleep(0.002 * (item % 3))
        return item * item

    for result in Decoders(3).map(work, range(40), most=6):
        ahead.append(len(begun) - taken)
        assert result == taken * taken
        taken += 1
    assert taken == 40
    assert max(ahead) <= 6


@pytest.mark.parametrize(("cores", "idle"), [(2, 0), (3, 1), (9, 2)])
def test_the_model_keeps_its_cores(monkeypatch, cores, idle):
    monkeypatch.setattr(decoders, "cores", lambda: cores)
    team, lock, running, most = Decoders(2), threading.Lock(), 0, 0
    computing = threading.Event()

    def work(item):
        nonlocal running, most
        with lock:
            running += 1
            if computing.is_set():
                most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return item

    coming = team.map(work, range(60), most=50)
    with team.model_computes():
        computing.set()
        waiting = threading.Thread(target=lambda: next(coming))
        waiting.start()
        time.sleep(0.1)
        computing.clear()
    waiting.join()
    assert most == idle
    assert list(coming) == list(range(1, 60))


def test_a_failure_is_passed_on():
    def work(item):
        if item == 3:
            raise ValueError("three")
        return item

    coming = Decoders(2).map(work, range(100), most=4)
    assert [next(coming) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(coming)
