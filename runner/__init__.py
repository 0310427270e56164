"""From a trial to a record: the only room with torch and Ray.

run.py is the driver loop. It gives trials to an executor (cluster.py with Ray, local.py without), whose nodes have
process.py run each in a fresh process that a nursery (nursery.py) forks; inside it worker.py prepares a workload on a
device and timing.py times it. store.py keeps the records. This file imports nothing, so that each process loads only
what it needs: a Ray worker never imports torch, and a trial never imports Ray.
"""
