r"""Proposition 1: a lower bound on the cost of a single fair model at each client.

As printed, the bound's sum over labels is 0 for any distributions, and its coefficient is negative
where it matters. The form that the proof supports: for every f that is fair at every client, with
P(X | S) shared,

.. math::
    \sum_i L_i(f) - L_i(f_i^*) \ge \sum_i \bigl(2 P_i(S = s_{max}^{(i)}) - 1\bigr)
    \, TV\bigl(P_i(Y \mid S = s_{max}), P_i(Y \mid S = s_{max}^{(i)})\bigr)

where s_max is the federation's majority group, s_max^(i) the client's, TV half the sum of absolute
differences, and labels are a function of (X, S). A client whose majority is the federation's adds
0.
"""

import numpy as np

from pfedfair.partition import Partition


def cost_of_one_model(part: Partition) -> np.ndarray:
    """Return each client's term of the bound, ``(clients,)``, in units of error.

    P(Y | S) is the data set's where clients share it by construction, else each client's own.
    """
    y, s = part.data.y, part.data.s
    clients = [np.concatenate(rows) for rows in zip(part.train, part.validation, strict=True)]
    majority = int(s[np.concatenate(clients)].mean() > 0.5)
    terms = []
    for rows, share in zip(clients, part.share_s1, strict=True):
        population = np.arange(len(y)) if part.shared_conditional else rows
        rates = [y[population[s[population] == z]].mean() if share not in (0, 1) else 0.0
                 for z in (0, 1)]  # fmt: skip
        client_majority = int(share > 0.5)
        larger = max(share, 1 - share)
        total_variation = abs(rates[majority] - rates[client_majority])
        terms.append((2 * larger - 1) * total_variation)
    return np.array(terms)
