"""`make gpu-check`: the path to an accelerator, proven in minutes on any machine that has one.

    python -m runner.check --device gpu|cpu [--out FOLDER] [--seconds 200]

plan.py says what is asked and in which order, calibration.py measures the machine itself in a process of its own,
traces.py looks for signs that a process has used an accelerator, findings.py reads out of all this what expectations.py
has something to say about, and page.py sets one beside the other. No Ray, and no package but torch, numpy and pyarrow.
This file imports nothing, like that of the room around it.
"""
