"""What the page shows, as plain data: one document, made of a run, a comparison, a study, a server.

`pfedfair.report.page` draws it, and computes nothing: all numbers are those of the files beside it.
"""

from pfedfair.studies.page.document import Page
from pfedfair.studies.page.results import of_results
from pfedfair.studies.page.run import of_run
from pfedfair.studies.page.server import of_server

__all__ = ["Page", "of_results", "of_run", "of_server"]
