"""Find the least time to move states between devices, with HiGHS."""
