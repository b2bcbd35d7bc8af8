"""The least time to move states between devices, by HiGHS."""
