"""What only ``hetopt verify`` needs: bounds derived again, and plans searched again."""
