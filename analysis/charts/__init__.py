"""The charts, one file each. Only here are seaborn and matplotlib known, and only when a chart is wanted."""
