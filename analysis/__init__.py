"""From records to a verdict: which target is faster from what size, how sure that is, and why.

The path of a datum: `question` checks what is asked, `trials` makes one value of each trial, `ratios` joins them into a
log ratio with a band at each size, `bands` draws curves between the sizes, `verdict` applies the rules, `reasons`
says it in words. `summary` and `crossover` hold the two functions that others call.
"""

from analysis.crossover import crossovers

__all__ = ["crossovers"]
