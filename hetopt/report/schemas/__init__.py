"""JSON Schemas of the files and reports that hetopt writes."""
