"""From records to a verdict: which target is faster from what size, how sure that is, and why.

The path of a datum, from rows to `crossovers`: `question` checks what is asked, `step_times` and `trials` make one
value of each trial, `outcomes` and `censoring` say how trials ended and what that alone tells, `ratios` joins them
into a log ratio with a band at each size, `bands` draws curves between the sizes, `evidence` cuts all of it into
groups, `verdict` applies the rules, `reasons` says why. `summary` and `crossover` hold the two functions that
others call. `explain` says where the time of a step goes, and `ladder_sizes` where that is worth measuring.
"""

from analysis.crossover import crossovers
from analysis.ladder_sizes import sizes_to_explain

__all__ = ["crossovers", "sizes_to_explain"]
