"""Whom clients believe: the same arrays as long as nothing has changed, and right ones always."""

import numpy as np
import torch

from pfedfair.methods.transport import people as module
from pfedfair.methods.transport.people import by_group, people


def counted(seed, clients=3, groups=2, cells=10):
    rng = np.random.default_rng(seed)
    return {
        "held": torch.from_numpy(rng.poisson(2.0, (clients, 2, groups, 2, cells)) + 0.0),
        "trained": torch.from_numpy(rng.poisson(5.0, (clients, groups, cells)) + 0.0),
    }


def told(own):
    trust = torch.tensor([0.5, 1.0], dtype=torch.float64)
    held, trained = by_group(own["held"].sum(0)), own["trained"].sum(0)
    return {
        "trust": trust, "counts": held + trust[:, None] * trained, "everybody": held + trained,
    }  # fmt: skip


def expected(server, own, sent):
    found = {}
    each = (("", server["trust"][:, None], "counts"), ("all_", 1.0, "everybody"))
    for mark, trust, name in each:
        own_people, sent_people = (
            counts["held"].sum((1, 3)) + trust * counts["trained"] for counts in (own, sent)
        )
        found[mark + "counts"] = own_people.numpy()
        found[mark + "pooled"] = (server[name] - sent_people).clamp(min=0).numpy()
    return found


def same(found, right):
    assert found.keys() == right.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, right[name])


def test_people_are_ones_own_and_everybody_elses():
    own = counted(0)
    server = told(own)
    same(people(server, own, own), expected(server, own, own))
    sent = {name: tensor - 1 for name, tensor in own.items()}
    same(people(server, own, sent), expected(server, own, sent))
    without = {name: server[name] for name in ("trust", "counts")}
    assert set(people(without, own, own)) == {"counts", "pooled"}


def test_the_same_arrays_as_long_as_nothing_has_changed():
    own = counted(1)
    server = told(own)
    first = people(server, own, own)
    later = {name: tensor.clone() for name, tensor in server.items()}
    assert people(later, dict(own), dict(own)) is first
    copy = {name: tensor.clone() for name, tensor in own.items()}
    again = people(server, copy, copy)
    assert again is not first
    same(again, first)
    assert all(not array.flags.writeable for array in first.values())


def test_what_has_changed_is_seen():
    own = counted(2)
    server = told(own)
    people(server, own, own)
    own["held"][0, 0, 0, 0, 0] += 1  # in place
    same(people(server, own, own), expected(server, own, own))
    for name in ("trust", "counts", "everybody"):
        server[name][0] += 0.25  # in place
        same(people(server, own, own), expected(server, own, own))


def test_few_chunks_are_remembered_while_their_counts_are_there():
    chunks = [counted(seed) for seed in range(module.MOST + 4)]
    server = told(chunks[0])
    for _ in range(2):
        for own in chunks:
            same(people(server, own, own), expected(server, own, own))
    assert len(module.LAST) == module.MOST
    del own
    chunks.clear()
    assert not module.LAST
