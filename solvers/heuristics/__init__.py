"""What is quick and proves nothing."""
