"""Whether `empty` fills memory where programs ask for deterministic algorithms: a switch that is only kept."""

fill_uninitialized_memory = True
