"""A site's part of a run, and what server and sites share, independent of the transport.

No framework is imported here. ``schema``: the agreed columns of the sites' tables. ``rows`` and
``cache``: a site's table, encoded. ``settings``: of a run. ``describe``, ``rounds`` and ``work``: a
site's answers. ``memory`` and ``checkpoint``: the saved states of sites and server. ``policy``,
``ledger`` and ``accounting``: a site's limits, its answers so far and their privacy cost.
``rare_values``, ``privacy``, ``secrets`` and ``checks``: what may leave a site, and which answers
are accepted.
"""
