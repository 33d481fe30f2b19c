"""Every method at sites: the stacked engine's models, and what is sent for them, by name."""

import numpy as np
import pandas as pd
import pytest
import torch
from flower_sites import Consortium

import pfedfair as pff
from pfedfair.engines import local
from pfedfair.engines.flower.conduct import Conductor
from pfedfair.engines.flower.records import unpack
from pfedfair.engines.site.settings import Settings, make_algorithm
from pfedfair.methods import METHODS
from pfedfair.runs import choose_network

# Everything that may leave a site besides its model, and what it is.
MORE = {
    "mmpf": {"v", "risk", "share"},  # its model is v; mean loss and share of rows, by group
    "fcfl": {"loss", "gap", "g_loss", "g_gap"},  # two means and their gradients
    "fairfed": {"w", "group", "positive", "right"},  # three kinds of counts
    "logofair": {"w", "group", "positive"},  # counts, by group
    "newton": {"rows", "outputs", "loss", "gradient", "hessian", "held_loss"},  # sums over rows
    "fa": {"w", "moments", "score"},  # means over all rows
    "fedfact": {"w", "group", "positive"},  # counts, by group
    "fedfact-in": {"w", "group", "positive"},
    "duan": {"w", "counts"},  # by group, label and decision
    # counts of scores, by group (and label); how clients differ
    "transport": {"w", "held", "trained", "clients", "alike", "effects"},
}


@pytest.fixture
def consortium(table, tmp_path) -> Consortium:
    # With some splits of so few rows the server shortens an honest update of a KDE penalty.
    return Consortium(table.federate(pff.partition.by_column("site"), seed=2), tmp_path)


@pytest.mark.parametrize("method", [m for m in METHODS if METHODS[m].kind.place != "pooled"])
def test_models_are_the_stacked_engines_and_nothing_of_a_person_is_sent(consortium, method):
    federation = consortium.federation
    own = {"bases": 7} if method == "fa" else {}  # site 1 has 30 rows, as there are bases
    grid = consortium.grid(method, options=own, rounds=3)
    sent = {i: [] for i in range(3)}

    def record(message, answer):
        sent[message.metadata.dst_node_id - 100].append(answer)
        return answer

    grid.spoil = dict.fromkeys(grid.contexts, record)
    state = Conductor(grid, Settings.read(grid.run_config)).run()
    algorithm = make_algorithm(grid.run_config)
    network = choose_network(federation, algorithm)
    fitted = local.fit(federation, algorithm, network, grid.run_config["seed"], at_once=10)
    torch.testing.assert_close(state.server["w"], fitted.w, atol=1e-5, rtol=0)
    for i, theta in enumerate(fitted.theta):
        torch.testing.assert_close(consortium.theta(i), theta, atol=1e-5, rtol=0)
    names = set()
    for i, answers in sent.items():
        rows = federation.partition.train[i]
        secrets = [federation.data.y[rows], federation.data.s[rows], consortium.theta(i).numpy()]
        model = consortium.theta(i)
        for answer in answers:
            assert set(answer.content) <= {"arrays", "metrics", "config"}
            for text in answer.content.config_records.values():
                if set(text) == {"best"}:  # a vote for one of a few proposals
                    assert text["best"] in range(len(federation) + 2)
                    continue
                check_description(text["description"], federation, i)
            for numbers in answer.content.metric_records.values():
                assert set(numbers) <= {"rounds", "done"}
            for arrays in answer.content.array_records.values():
                tensors = unpack(arrays)
                names |= set(tensors)
                for name, tensor in tensors.items():
                    assert len(rows) not in tensor.shape, name  # no number for each person
                    flat = tensor.numpy().ravel()
                    for secret in secrets:
                        personal = secret is not secrets[2] or not torch.equal(
                            model, state.server["w"]
                        )
                        same = flat.shape == secret.shape and np.allclose(flat, secret, atol=1e-7)
                        assert not (personal and same), name
    federated = pff.make(method).place == "federated"
    assert names <= (MORE.get(method, {"w"}) if federated else set())


def check_description(text, federation, i):
    """Sums over all rows; no value of a single person is in them."""
    frame = pd.DataFrame(federation.data.frame.iloc[federation.partition.train[i]])
    for column in ("a", "b", "c"):
        for value in frame[column]:
            assert repr(float(value)) not in text


def test_a_message_has_what_it_should_and_no_more(consortium):
    grid = consortium.grid("pfedfair")
    Conductor(grid, Settings.read(grid.run_config)).run()
    kinds = [m.metadata.message_type for m in grid.sent]
    assert kinds == ["query.describe"] * 3 + ["train"] * 6 + ["train.finish"] * 3
    for message in grid.sent[3:]:
        config = message.content.config_records["config"]
        assert set(config) == {
            "round",
            "phase",
            "local-rounds",
            "number",
            "key",
            "schema",
            "max-change",
        }


def test_an_errors_text_stays_at_the_site(consortium):
    path = consortium.folder / "train1.parquet"
    pd.read_parquet(path).assign(hired=np.nan).to_parquet(path)
    grid = consortium.grid("fedavg", wait=0.1, **{"min-sites": 2})
    answers = []
    grid.spoil[101] = lambda message, answer: answers.append(answer) or answer
    Conductor(grid, Settings.read(grid.run_config)).run()
    assert answers[0].error.reason == "InputError at the site; its own log says more."


def test_accuracy_and_ddp_are_sent_only_if_the_site_says_so(consortium):
    grid = consortium.grid("fedavg", rounds=1)
    grid.contexts[101].node_config["share-metrics"] = True
    last = {}
    look = lambda m, answer: last.update({m.metadata.dst_node_id: answer}) or answer  # noqa: E731
    grid.spoil = dict.fromkeys(grid.contexts, look)
    Conductor(grid, Settings.read(grid.run_config)).run()
    assert set(last[100].content.metric_records["metrics"]) == {"done"}
    assert set(last[101].content.metric_records["metrics"]) == {"done", "accuracy", "ddp"}
