"""Where rows come from, one file a connector."""
