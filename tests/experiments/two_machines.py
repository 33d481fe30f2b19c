"""Two machines of a Ray cluster, as two groups of processes on loopback.

    python two_machines.py FOLDER

Prints the address; a line on its input kills the second machine as soon as it is at work, the end
of the input ends both.
"""

import sys
import time
from contextlib import suppress

from ray.cluster_utils import Cluster  # before psutil: Ray has its own

# isort: split
import psutil

from pfedfair.engines.flower.processes import family


def busy(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "at_worker" in " ".join(process.cmdline())
    return False


if __name__ == "__main__":
    here = {"node_ip_address": "127.0.0.1", "temp_dir": sys.argv[1], "num_cpus": 1}
    cluster = Cluster(True, head_node_args={**here, "include_dashboard": False})
    second = cluster.add_node(**here)
    print(cluster.address, flush=True)
    if sys.stdin.readline():
        (raylet,) = (one.process.pid for some in second.all_processes.values() for one in some)
        while not any(map(busy, family(raylet))):
            time.sleep(0.01)
        for one in family(raylet):
            with suppress(psutil.Error):
                one.kill()  # without a word, as a power cut
        print("killed", flush=True)
        sys.stdin.readline()
    cluster.shutdown()
