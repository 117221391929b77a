"""AnalysisRuns, of Rollouts and those made by hand: looked at, measured, and their status written."""
