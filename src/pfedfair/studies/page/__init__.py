"""The document of a page, made from a run, a comparison, a study or a server.

`pfedfair.report.page` renders it and computes nothing: all numbers are those of the saved files.
"""

from pfedfair.studies.page.document import Page
from pfedfair.studies.page.results import of_results
from pfedfair.studies.page.run import of_run
from pfedfair.studies.page.server import of_server

__all__ = ["Page", "of_results", "of_run", "of_server"]
