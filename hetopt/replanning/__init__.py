"""The next plan after devices are lost or added, and what has to move for it."""
