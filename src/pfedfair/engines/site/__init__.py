"""What any deployment needs, whatever carries its messages: no framework is imported here.

``schema``: what the sites' tables must have in common. ``rows``: a site's table. ``settings``: of a
run. ``work``: a site's part of a round. ``memory`` and ``checkpoint``: what sites and server keep.
``checks`` and ``privacy``: what may leave a site, and which answers are taken.
"""
