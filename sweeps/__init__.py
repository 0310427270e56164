"""What is asked and what is answered: sweeps, trials, targets, records and the study they lie in.

A sweep file (sweep_file.py) becomes a `Sweep` (definition.py), which plans `Trial`s (trial.py) of a workload
(workload.py) on `Target`s (target.py). Each is answered by a `Record` (record.py), stored in a study (study.py). The
runner and the analysis both speak in these words and never to each other. No torch and no Ray here.
"""
