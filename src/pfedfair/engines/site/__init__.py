"""What any deployment needs, whatever carries its messages: no framework is imported here.

``schema``: what the sites' tables must have in common. ``rows``: a site's table. ``settings``: of a
run. ``tell`` and ``work``: a site's part of a run. ``memory`` and ``checkpoint``: what sites and
server keep. ``policy``, ``ledger`` and ``accounting``: what a site allows, what it has answered and
what that cost. ``few``, ``privacy``, ``secret`` and ``checks``: what may leave a site, and which
answers are taken.
"""
