"""Sources of compute times: a roofline, operators, or a profile's forest."""
