"""What every answer passes: rules, units, times, memory, a result's claims."""
