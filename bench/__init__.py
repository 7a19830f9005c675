"""The benchmarks: ours and the others in turn, in one run."""
